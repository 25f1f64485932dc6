import { type Harness, noModel } from './harness.ts'

/** Does nothing. A task on which it scores 1 measures nothing. */
export const nop: Harness = {
  id: 'nop',
  name: 'Nothing at all',
  version: '1',
  ...noModel,
  isOfTheTask: true,
  plan: () => undefined,
}

import { type Harness, noModel } from './harness.ts'

/** The no-op. A task in which it passes measures nothing. */
export const nop: Harness = {
  id: 'nop',
  name: 'No-op',
  version: '1',
  ...noModel,
  isControl: true,
  plan: () => undefined,
}

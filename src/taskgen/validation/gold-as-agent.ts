import { type Harness, noModel } from '../../harnesses/harness.ts'

/** Makes the change of the solution the way an agent would: nothing of the folder of the solution is there. */
export const patchHarness = (source: string): Harness => ({
  id: 'gold',
  name: 'The change of the solution, made by an agent',
  version: '1',
  ...noModel,
  plan: () => ({
    command: ['sh', '-c', 'base64 -d | git apply --whitespace=nowarn -'],
    env: [],
    folders: [],
    input: Buffer.from(source, 'latin1').toString('base64'),
  }),
})

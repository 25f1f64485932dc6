import { type Harness, noModel } from './harness.ts'

/** One line of shell as the agent, with which an author tries a solution, or a cheat. The instruction is its input. */
export const shellCommand = (line: string): Harness => ({
  id: 'command',
  name: 'A line of shell',
  version: '1',
  ...noModel,
  plan: ({ instruction }) => ({ command: ['sh', '-c', line], env: [], folders: [], input: instruction }),
})

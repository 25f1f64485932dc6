import type { Harness } from './harness.ts'

/** One line of shell as the agent, with which an author tries a solution, or a cheat. The instruction is its input. */
export const shellCommand = (line: string): Harness => ({
  id: 'command',
  needsModel: false,
  plan: ({ instruction }) => ({ command: ['sh', '-c', line], env: [], folders: [], input: instruction }),
})

import { type Harness, noModel } from './harness.ts'

/** Runs a shell command as the agent, for task authors who try a solution or a cheat. Reads the instruction on stdin. */
export const shellCommand = (line: string): Harness => ({
  id: 'command',
  name: 'Shell command',
  version: '1',
  ...noModel,
  plan: ({ instruction }) => ({ command: ['sh', '-c', line], env: [], folders: [], input: instruction }),
})

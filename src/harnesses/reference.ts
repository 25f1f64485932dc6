import { type Harness, noModel } from './harness.ts'

/** Runs the reference solution. A task in which it does not pass is broken. */
export const oracle: Harness = {
  id: 'oracle',
  name: 'Reference solution',
  version: '1',
  ...noModel,
  isControl: true,
  plan: ({ solution }, { solutionEnv }) => {
    if (!solution) return undefined
    return {
      command: [solution.script.replace(solution.folder, '/solution')],
      env: [{ name: 'DEBIAN_FRONTEND', value: ['noninteractive'] }, ...solutionEnv],
      folders: [{ source: solution.folder, target: '/solution' }],
      input: '',
    }
  },
}

/** The no-op. A task in which it passes measures nothing. */
export const nop: Harness = {
  id: 'nop',
  name: 'No-op',
  version: '1',
  ...noModel,
  isControl: true,
  plan: () => undefined,
}

/** Runs a shell command as the agent, for task authors who try a solution or a cheat. Reads the instruction on stdin. */
export const createCommandHarness = (line: string): Harness => ({
  id: 'command',
  name: 'Shell command',
  version: '1',
  ...noModel,
  plan: ({ instruction }) => ({ command: ['sh', '-c', line], env: [], folders: [], input: instruction }),
})

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

import { type Harness, noModel } from './harness.ts'

/** Runs the author's own solution. A task on which it does not score 1 is broken. */
export const oracle: Harness = {
  id: 'oracle',
  name: "The author's solution",
  version: '1',
  ...noModel,
  isOfTheTask: true,
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

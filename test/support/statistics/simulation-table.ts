import { createHash } from 'node:crypto'
import { falseRanks, intervalCoverage, pairCoverage } from './simulation.ts'

export const TASKS = [10, 20, 50, 100, 200]
export const ATTEMPTS = [1, 2, 3, 4, 5]
export const MEANS = [0.3, 0.6, 0.9]
export const DRAWS = 4000
/** Number of equally accurate settings. */
const EQUAL_SETTINGS = 6
const GAP = 0.15

export const toSeed = (...words: (string | number)[]): string =>
  createHash('sha256').update(words.join(' ')).digest('hex')

/** Renders the tables of docs/statistics.md. Deterministic. */
export function simulationTables(draws = DRAWS): string {
  return [
    `True accuracy held by the 95 % interval, in percent of ${draws} simulated comparisons (half its width, in points):`,
    table(
      ['tasks, true accuracy', ...ATTEMPTS.map((attempts) => `${attempts} ${word(attempts)}`)],
      intervalRows(draws),
    ),
    `Two settings on the same tasks, one better by ${100 * GAP} points: how often the interval of the difference held that, and how often it excluded 0, so that the better one could be told (${draws / 2} comparisons each). And ${EQUAL_SETTINGS} settings that are all alike: how often the ranks claimed any difference among them (${draws / 4} each).`,
    table(['tasks, attempts', 'difference held', 'told apart', 'false claims'], pairRows(draws)),
  ].join('\n\n')
}

const word = (attempts: number): string => (attempts === 1 ? 'attempt' : 'attempts')

const intervalRows = (draws: number): string[][] =>
  MEANS.flatMap((mean) =>
    TASKS.map((tasks) => [
      `${tasks}, ${Math.round(100 * mean)} %`,
      ...ATTEMPTS.map((attempts) => {
        const { covered, halfWidth } = intervalCoverage({ tasks, attempts, mean }, draws, toSeed(mean, tasks, attempts))
        return `${covered.toFixed(1)} (${halfWidth.toFixed(1)})`
      }),
    ]),
  )

const pairRows = (draws: number): string[][] =>
  TASKS.flatMap((tasks) =>
    [1, 3, 5].map((attempts) => {
      const world = { tasks, attempts, mean: 0.5 }
      const { covered, seen } = pairCoverage(world, GAP, draws / 2, toSeed('pair', tasks, attempts))
      const wrong = falseRanks(world, EQUAL_SETTINGS, draws / 4, toSeed('ranks', tasks, attempts))
      return [`${tasks}, ${attempts}`, ...[covered, seen, wrong].map((percent) => `${percent.toFixed(1)} %`)]
    }),
  )

const table = (head: string[], rows: string[][]): string =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')

import { falseRanks, intervalCoverage, pairCoverage, toSeed } from './simulation.ts'
import { simulateWorlds, type WorldCounts } from './worlds.ts'

export const TASKS = [10, 20, 50, 100, 200]
export const ATTEMPTS = [1, 2, 3, 4, 5]
export const MEANS = [0.3, 0.6, 0.9]
export const DRAWS = 4000
/** Number of equally accurate settings. */
const EQUAL_SETTINGS = 6
const GAP = 0.15
const WORLDS = 1000

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
    `Whole comparisons: ${WORLDS} simulated ones of 2–12 settings, 10–200 tasks and 1–5 attempts. About half of the settings of each are equally accurate, the others differ by up to 30 points. Bars: at most 5 % false claims and bad recommendations, coverage of 93 to 99.5 %.`,
    table(['share', 'percent'], worldRows(simulateWorlds(WORLDS, 'worlds'))),
  ].join('\n\n')
}

const worldRows = (counts: WorldCounts): string[][] => {
  const row = (what: string, part: number, whole: number) => [what, `${((100 * part) / whole).toFixed(1)} %`]
  return [
    row('comparisons with a false `better` or `worse`', counts.falseBetter, counts.worlds),
    row(
      'recommended although worse by more than the visible difference',
      counts.badRecommendations,
      counts.recommended,
    ),
    row('comparisons with a recommendation', counts.recommended, counts.worlds),
    row('comparisons with a conclusive answer', counts.conclusive, counts.worlds),
    row('unequal pairs that were told apart', counts.toldApart, counts.unequalPairs),
    row('true accuracy in its interval', counts.accuracyHeld, counts.accuracyIntervals),
    row('true difference in its interval', counts.differenceHeld, counts.differenceIntervals),
    row('true cost per task in its interval', counts.costHeld, counts.costIntervals),
  ]
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

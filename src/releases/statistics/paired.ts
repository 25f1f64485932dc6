import { oneSided, quantile, twoSided } from './student.ts'

/** Trials of one task with one setting. */
export type Score = { trials: number; passes: number }
export type Scores = ReadonlyMap<string, Score>

/** How much more accurate one setting is than another on the tasks that both have, in shares of 1. */
export type Difference = {
  tasks: number
  mean: number
  low: number
  high: number
  wins: number
  losses: number
  ties: number
}

const TASKS_MIN = 5
const LEVEL = 0.05

type Test = { mean: number; t: number; error: number; degrees: number }

/**
 * Task by task, so that what makes a task hard for both falls out. Two made-up tasks, one for each side and as large as
 * one trial, keep the spread from being taken for nothing where few tasks differ (Bonett and Price).
 */
function test({ tasks, sum, squares, attempts }: Gaps): Test | undefined {
  if (tasks < TASKS_MIN) return undefined
  const [count, degrees] = [tasks + 2, tasks + 1]
  const mean = sum / count
  const error = Math.sqrt((squares + 2 / attempts ** 2 - count * mean ** 2) / degrees / count)
  return { mean, t: mean / error, error, degrees }
}

/** The scores of settings in rows, with the same tasks in the same places: quicker to go through, pair by pair. */
export type Track = { shares: Float64Array; trials: Float64Array }

export function tracksOf(all: readonly Scores[]): Track[] {
  const places = new Map<string, number>()
  for (const scores of all) for (const task of scores.keys()) if (!places.has(task)) places.set(task, places.size)
  return all.map((scores) => {
    const track = { shares: new Float64Array(places.size).fill(Number.NaN), trials: new Float64Array(places.size) }
    for (const [task, { passes, trials }] of scores) {
      const place = places.get(task) ?? 0
      track.shares[place] = passes / trials
      track.trials[place] = trials
    }
    return track
  })
}

/** Of the tasks that both have: the differences of their shares of passes, summed up, and the fewest trials of any. */
type Gaps = { tasks: number; sum: number; squares: number; wins: number; losses: number; attempts: number }

function gaps(a: Track, b: Track): Gaps {
  let [tasks, sum, squares, wins, losses, attempts] = [0, 0, 0, 0, 0, Number.POSITIVE_INFINITY]
  for (let place = 0; place < a.shares.length; place++) {
    const gap = (a.shares[place] ?? 0) - (b.shares[place] ?? 0)
    if (Number.isNaN(gap)) continue
    tasks += 1
    sum += gap
    squares += gap * gap
    wins += Number(gap > 0)
    losses += Number(gap < 0)
    attempts = Math.min(attempts, a.trials[place] ?? 0, b.trials[place] ?? 0)
  }
  return { tasks, sum, squares, wins, losses, attempts }
}

/** The 95 % interval of the difference. None below five tasks. */
export function difference(a: Track, b: Track): Difference | undefined {
  const found = gaps(a, b)
  const tested = test(found)
  if (!tested) return undefined
  const half = quantile(LEVEL, tested.degrees) * tested.error
  const { tasks, wins, losses } = found
  return {
    ...{ tasks, mean: found.sum / tasks },
    ...{ low: Math.max(-1, tested.mean - half), high: Math.min(1, tested.mean + half) },
    ...{ wins, losses, ties: tasks - wins - losses },
  }
}

/** How surprising the difference would be if there were none; and which way it goes. Undefined: too few tasks. */
export function surprise(a: Track, b: Track): { probability: number; isBetter: boolean } | undefined {
  const found = test(gaps(a, b))
  return found && { probability: twoSided(found.t, found.degrees), isBetter: found.mean > 0 }
}

/** Whether `a` was shown to be less accurate than `b`: one-sided, at 5 %. */
export function isShownWorse(a: Track, b: Track): boolean {
  const found = test(gaps(a, b))
  return found !== undefined && oneSided(-found.t, found.degrees) < LEVEL
}

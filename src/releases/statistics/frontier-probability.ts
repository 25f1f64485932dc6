import { below, generator } from './generator.ts'

/** The results of a setting on the same tasks in the same order as those of all others. */
export type Track = { id: string; passed: readonly boolean[]; micros: readonly number[] }

export const DRAWS = 1000

/**
 * How often each setting is on the frontier when the tasks are drawn again, with repetition, the same for all settings.
 * The seed makes it the same everywhere and for ever.
 */
export function frontierProbabilities(tracks: readonly Track[], seed: string): Map<string, number> {
  const tasks = tracks[0]?.passed.length ?? 0
  const counts = tracks.map(() => 0)
  const next = generator(seed)
  const rows = tracks.map((track, place) => ({
    place,
    passed: Float64Array.from(track.passed, Number),
    micros: Float64Array.from(track.micros),
  }))
  for (let draw = 0; draw < DRAWS && tasks > 0; draw++) {
    const drawn = drawnTasks(next, tasks)
    const points = rows.map((row) => sumsOf(row, drawn))
    for (const place of unbeaten(points)) counts[place] = (counts[place] ?? 0) + 1
  }
  return new Map(tracks.map(({ id }, place) => [id, (counts[place] ?? 0) / DRAWS]))
}

type Weighted = { tasks: Uint32Array; weights: Float64Array }

/** Each task that was drawn, and how often. */
function drawnTasks(next: () => number, count: number): Weighted {
  const times = new Uint32Array(count)
  for (let draw = 0; draw < count; draw++) {
    const task = below(next, count)
    times[task] = (times[task] ?? 0) + 1
  }
  const tasks = new Uint32Array(count)
  const weights = new Float64Array(count)
  let distinct = 0
  for (let task = 0; task < count; task++) {
    if (times[task] === 0) continue
    tasks[distinct] = task
    weights[distinct] = times[task] ?? 0
    distinct += 1
  }
  return { tasks: tasks.subarray(0, distinct), weights }
}

type Row = { place: number; passed: Float64Array; micros: Float64Array }

function sumsOf({ place, passed, micros }: Row, { tasks, weights }: Weighted): Drawn {
  let passes = 0
  let cost = 0
  for (let each = 0; each < tasks.length; each++) {
    const task = tasks[each] ?? 0
    const weight = weights[each] ?? 0
    passes += (passed[task] ?? 0) * weight
    cost += (micros[task] ?? 0) * weight
  }
  return { place, passed: passes, micros: cost }
}

type Drawn = { place: number; passed: number; micros: number }

/** The rule of the frontier, from cheap to dear: all have the same tasks, so that sums can be compared as they are. */
function unbeaten(points: Drawn[]): number[] {
  const somePass = points.some(({ passed }) => passed > 0)
  const sorted = points
    .filter(({ passed }) => passed > 0 || !somePass)
    .sort((a, b) => a.micros - b.micros || b.passed - a.passed)
  const kept: Drawn[] = []
  for (const point of sorted) {
    const last = kept.at(-1)
    const isTie = last?.micros === point.micros && last.passed === point.passed
    if (!last || isTie || point.passed > last.passed) kept.push(point)
  }
  return kept.map(({ place }) => place)
}

/** Sums over the tasks of a setting. They are whole numbers, so that averages can be compared without rounding. */
export type Point = { id: string; tasks: number; passed: number; micros: number }

/**
 * Returns the ids of the settings that no other setting beats, from cheap to expensive and then by id. Exact ties all
 * stay. A setting that passed nothing is left out unless no setting passed anything.
 */
export function listFrontier(points: readonly Point[]): string[] {
  const somePass = points.some(({ passed }) => passed > 0)
  return points
    .filter((point) => point.passed > 0 || !somePass)
    .filter((point) => !points.some((other) => beats(other, point)))
    .sort((a, b) => compareCost(a, b) || (a.id < b.id ? -1 : 1))
    .map(({ id }) => id)
}

/** True if `a` is at least as cheap and as accurate as `b`, and better in one of the two. */
function beats(a: Point, b: Point): boolean {
  const [cost, accuracy] = [compareCost(a, b), compareAccuracy(a, b)]
  return cost <= 0 && accuracy >= 0 && (cost < 0 || accuracy > 0)
}

const compareCost = (a: Point, b: Point): number => compareFractions([a.micros, a.tasks], [b.micros, b.tasks])
const compareAccuracy = (a: Point, b: Point): number => compareFractions([a.passed, a.tasks], [b.passed, b.tasks])

type Fraction = [numerator: number, denominator: number]

/** Returns a number with the sign of `a/b - c/d`. Exact for products beyond 2^53. */
const compareFractions = ([a, b]: Fraction, [c, d]: Fraction): number =>
  Number(BigInt(a) * BigInt(d) - BigInt(c) * BigInt(b))

/** Results of a setting per task. All settings have the same tasks in the same order. */
export type BootstrapResults = { id: string; passed: readonly boolean[]; micros: readonly number[] }

/** Number of bootstrap samples. */
export const DRAWS = 1000

/**
 * Estimates how often each setting is on the frontier when tasks are resampled with replacement (bootstrap), with the same
 * draws for all settings. The seed makes the result reproducible.
 */
export function estimateFrontierProbabilities(all: readonly BootstrapResults[], seed: string): Map<string, number> {
  const taskCount = all[0]?.passed.length ?? 0
  const counts = all.map(() => 0)
  const next = createGenerator(seed)
  const rows = all.map((results, index) => ({
    index,
    passed: Float64Array.from(results.passed, Number),
    micros: Float64Array.from(results.micros),
  }))
  for (let draw = 0; draw < DRAWS && taskCount > 0; draw++) {
    const drawn = drawTasks(next, taskCount)
    const points = rows.map((row) => sumDraw(row, drawn))
    for (const index of listUnbeaten(points)) counts[index] = (counts[index] ?? 0) + 1
  }
  return new Map(all.map(({ id }, index) => [id, (counts[index] ?? 0) / DRAWS]))
}

type TaskWeights = { tasks: Uint32Array; weights: Float64Array }

/** Draws tasks with replacement. Returns the distinct tasks and how often each was drawn. */
function drawTasks(next: () => number, count: number): TaskWeights {
  const times = new Uint32Array(count)
  for (let draw = 0; draw < count; draw++) {
    const task = drawBelow(next, count)
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

type BootstrapRow = { index: number; passed: Float64Array; micros: Float64Array }

function sumDraw({ index, passed, micros }: BootstrapRow, { tasks, weights }: TaskWeights): DrawnPoint {
  let passes = 0
  let cost = 0
  for (let position = 0; position < tasks.length; position++) {
    const task = tasks[position] ?? 0
    const weight = weights[position] ?? 0
    passes += (passed[task] ?? 0) * weight
    cost += (micros[task] ?? 0) * weight
  }
  return { index, passed: passes, micros: cost }
}

type DrawnPoint = { index: number; passed: number; micros: number }

/** Applies the frontier rule to sums instead of averages: all settings have the same tasks. */
function listUnbeaten(points: DrawnPoint[]): number[] {
  const somePass = points.some(({ passed }) => passed > 0)
  const sorted = points
    .filter(({ passed }) => passed > 0 || !somePass)
    .sort((a, b) => a.micros - b.micros || b.passed - a.passed)
  const unbeaten: DrawnPoint[] = []
  for (const point of sorted) {
    const last = unbeaten.at(-1)
    const isTie = last?.micros === point.micros && last.passed === point.passed
    if (!last || isTie || point.passed > last.passed) unbeaten.push(point)
  }
  return unbeaten.map(({ index }) => index)
}

/**
 * Creates a seeded generator of integers below 2^32: sfc32, initialized with the first twelve bytes of the seed and a
 * counter of 1, with the first twelve outputs discarded. The seed is a SHA-256 in hexadecimal.
 */
export function createGenerator(seed: string): () => number {
  const word = (index: number): number => Number.parseInt(seed.slice(8 * index, 8 * index + 8), 16) | 0
  let [a, b, c, counter] = [word(0), word(1), word(2), 1]
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return sum >>> 0
  }
  for (let discarded = 0; discarded < 12; discarded++) next()
  return next
}

/** Draws an integer below `count`. Uniform except for a bias below 2^-32. */
export const drawBelow = (next: () => number, count: number): number => Math.floor((next() / 4_294_967_296) * count)

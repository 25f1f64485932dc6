import { createHash } from 'node:crypto'
import { createGenerator } from '../../../src/statistics/frontier.ts'
import { computeWilsonInterval } from '../../../src/statistics/intervals.ts'
import {
  type AlignedScores,
  alignScores,
  estimateDifference,
  type Score,
  type Scores,
} from '../../../src/statistics/paired.ts'
import { computeRanks } from '../../../src/statistics/pairs.ts'

// Simulations with a known truth: tasks have pass probabilities, trials are drawn, and the statistics are compared with
// the truth.

export const toSeed = (...words: (string | number)[]): string =>
  createHash('sha256').update(words.join(' ')).digest('hex')

export type Random = () => number

/** Turns a generator of 32-bit integers into one of numbers between 0 and 1, both excluded. */
export const toRandom =
  (next: () => number): Random =>
  () =>
    (next() + 0.5) / 4_294_967_296

const random = (seed: string): Random => toRandom(createGenerator(seed))

/** Beta(a, b) by the ratio of two gammas (Marsaglia and Tsang). */
export function beta(uniform: Random, a: number, b: number): number {
  const [x, y] = [gamma(uniform, a), gamma(uniform, b)]
  return x / (x + y)
}

function gamma(uniform: Random, shape: number): number {
  if (shape < 1) return gamma(uniform, shape + 1) * uniform() ** (1 / shape)
  const d = shape - 1 / 3
  const c = 1 / Math.sqrt(9 * d)
  for (;;) {
    const x = Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
    const v = (1 + c * x) ** 3
    if (v > 0 && Math.log(uniform()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v
  }
}

/**
 * Sum of the parameters of the Beta distribution of pass probabilities. Small values: tasks are nearly always or
 * never solved.
 */
export const CONCENTRATION = 1.2

const simulateTask = (uniform: Random, chance: number, trials: number): Score => {
  let passes = 0
  for (let trial = 0; trial < trials; trial++) if (uniform() < chance) passes += 1
  return { trials, passes }
}

export type World = { tasks: number; attempts: number; mean: number }
export type Coverage = { covered: number; halfWidth: number }

/** Returns how often the 95 % interval of one setting contains the true accuracy, in percent. */
export function intervalCoverage({ tasks, attempts, mean }: World, draws: number, seed: string): Coverage {
  const uniform = random(seed)
  let [covered, width] = [0, 0]
  for (let draw = 0; draw < draws; draw++) {
    const shares = Array.from({ length: tasks }, () => {
      const chance = beta(uniform, mean * CONCENTRATION, (1 - mean) * CONCENTRATION)
      return simulateTask(uniform, chance, attempts).passes / attempts
    })
    const found = computeInterval(shares, attempts)
    if (found.low <= mean && mean <= found.high) covered += 1
    width += (found.high - found.low) / 2
  }
  return { covered: (100 * covered) / draws, halfWidth: (100 * width) / draws }
}

function computeInterval(shares: number[], attempts: number): { low: number; high: number } {
  const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length
  const variance = shares.reduce((sum, share) => sum + (share - mean) ** 2, 0) / (shares.length - 1)
  const found = computeWilsonInterval({ tasks: shares.length, trials: shares.length * attempts, mean, variance })
  return found ?? { low: 0, high: 1 }
}

/**
 * Simulates two settings on the same tasks that differ by `gap`: how often the interval contains the gap and excludes
 * 0.
 */
export function pairCoverage({ tasks, attempts, mean }: World, gap: number, draws: number, seed: string) {
  const uniform = random(seed)
  let [covered, seen, width] = [0, 0, 0]
  for (let draw = 0; draw < draws; draw++) {
    const [a, b] = simulateTwoSettings(uniform, { tasks, attempts, mean }, gap)
    const found = a && b && estimateDifference(a, b)
    if (!found) continue
    if (found.low <= gap && gap <= found.high) covered += 1
    if (found.low > 0 || found.high < 0) seen += 1
    width += (found.high - found.low) / 2
  }
  return { covered: (100 * covered) / draws, seen: (100 * seen) / draws, halfWidth: (100 * width) / draws }
}

/** Simulates two settings. The better one solves a share of what the other fails, which adds up to the gap. */
function simulateTwoSettings(uniform: Random, { tasks, attempts, mean }: World, gap: number): AlignedScores[] {
  const lift = gap / (1 - mean)
  const all = Array.from({ length: tasks }, (_, place) => {
    const chance = beta(uniform, mean * CONCENTRATION, (1 - mean) * CONCENTRATION)
    const better = simulateTask(uniform, chance + lift * (1 - chance), attempts)
    return [String(place), better, simulateTask(uniform, chance, attempts)] as const
  })
  return alignScores([new Map(all.map(([task, a]) => [task, a])), new Map(all.map(([task, , b]) => [task, b]))])
}

/** Simulates equally accurate settings: returns how often the ranks claim a difference, in percent. */
export function falseRanks({ tasks, attempts, mean }: World, settings: number, draws: number, seed: string): number {
  const uniform = random(seed)
  let wrong = 0
  for (let draw = 0; draw < draws; draw++) {
    const chances = Array.from({ length: tasks }, () => beta(uniform, mean * CONCENTRATION, (1 - mean) * CONCENTRATION))
    const all = Array.from(
      { length: settings },
      (): Scores => new Map(chances.map((chance, task) => [String(task), simulateTask(uniform, chance, attempts)])),
    )
    if (computeRanks(all).some(({ best, worst }) => best > 1 || worst < settings)) wrong += 1
  }
  return (100 * wrong) / draws
}

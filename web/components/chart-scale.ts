import type { Box } from './chart-labels.ts'

export type CostScale = { toX: (amount: number) => number; ticks: number[]; isLog: boolean }
export type AccuracyScale = { toY: (percent: number) => number; accuracyTicks: number[] }

type MeasuredAccuracy = { accuracy: number; stats: { ci95: { low: number; high: number } | null } }

/** Distance in points between the outermost interval and the edge of the scale. */
const ACCURACY_MARGIN = 4
/** Factors by which the scale of costs extends beyond the cheapest and the most expensive setting. */
const LINEAR_MARGIN_FACTOR = 1.15
const LOG_MARGIN_FACTOR = 1.45

/** Builds the scale of accuracies in percent. Covers all intervals; its ends are multiples of ten. */
export function toAccuracyScale(settings: readonly MeasuredAccuracy[], plot: Box): AccuracyScale {
  const bounds = settings.flatMap(({ accuracy, stats: { ci95 } }) => [
    accuracy,
    ci95?.low ?? accuracy,
    ci95?.high ?? accuracy,
  ])
  const low = Math.max(0, Math.floor((Math.min(...bounds, 100) - ACCURACY_MARGIN) / 10) * 10)
  const high = Math.min(100, Math.ceil((Math.max(...bounds, 0) + ACCURACY_MARGIN) / 10) * 10)
  const step = high - low > 50 ? 20 : 10
  const toY = (value: number): number => round(plot.bottom - ((value - low) / (high - low)) * (plot.bottom - plot.top))
  const accuracyTicks = range(Math.ceil(low / step), Math.floor(high / step)).map((multiple) => multiple * step)
  return { toY, accuracyTicks }
}

/** Builds a logarithmic scale of costs, or a linear scale if a setting cost nothing. */
export function toCostScale(costs: readonly number[], { left, right }: Box, ticksMax: number): CostScale {
  const [lowest, highest] = [Math.min(...costs), Math.max(...costs)]
  const width = right - left
  if (lowest <= 0) {
    const top = highest > 0 ? highest * LINEAR_MARGIN_FACTOR : 1
    const toX = (amount: number) => round(left + (amount / top) * width)
    return { toX, ticks: [0, top / 2, top], isLog: false }
  }
  const [low, high] = [Math.log10(lowest / LOG_MARGIN_FACTOR), Math.log10(highest * LOG_MARGIN_FACTOR)]
  const toX = (amount: number) => round(left + ((Math.log10(amount) - low) / (high - low)) * width)
  const roundAmounts = range(Math.floor(low), Math.ceil(high)).flatMap((power) =>
    [1, 2, 5].map((digit) => digit * 10 ** power),
  )
  const ticks = roundAmounts.filter((amount) => Math.log10(amount) >= low && Math.log10(amount) <= high)
  const powersOfTen = ticks.filter(isPowerOfTen)
  const showsPowersOnly = ticks.length > ticksMax && powersOfTen.length >= 2
  return { toX, ticks: thin(showsPowersOnly ? powersOfTen : ticks, ticksMax), isLog: true }
}

/** Tests for a power of ten, with a tolerance for rounding errors of the logarithm. */
const isPowerOfTen = (amount: number): boolean => Number.isInteger(round(Math.log10(amount) * 1e6) / 1e6)
/** Lists the integers between two bounds, both included. */
const range = (from: number, to: number): number[] =>
  Array.from({ length: Math.max(0, to - from + 1) }, (_, offset) => from + offset)
/** Keeps every n-th tick, so that at most `max` remain. */
const thin = (ticks: number[], max: number): number[] =>
  ticks.filter((_, index) => index % Math.ceil(ticks.length / max) === 0)
/** Rounds to a tenth of a pixel, which is enough for a drawing. */
export const round = (value: number): number => Math.round(value * 10) / 10

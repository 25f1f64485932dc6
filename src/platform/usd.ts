const MICROS_PER_USD = 1_000_000

/**
 * Returns a total divided by a count, in USD, rounded half up to six decimals. Integer arithmetic, so that every process
 * and every page shows the same number.
 */
export const averageUsd = (totalMicros: number, count: number): number =>
  Number((2n * BigInt(totalMicros) + BigInt(count)) / (2n * BigInt(count))) / MICROS_PER_USD

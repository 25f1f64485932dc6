const MICROS_PER_USD = 1_000_000

/** Converts micro-dollars to USD, rounded to six decimals. */
export const toUsd = (micros: number): number => Math.round(micros) / MICROS_PER_USD

export const toMicros = (usd: number): number => Math.round(usd * MICROS_PER_USD)

/**
 * Returns a total divided by a count, in USD, rounded half up to six decimals. Integer arithmetic, so that every process
 * and every page shows the same number.
 */
export const averageUsd = (totalMicros: number, count: number): number =>
  Number((2n * BigInt(totalMicros) + BigInt(count)) / (2n * BigInt(count))) / MICROS_PER_USD

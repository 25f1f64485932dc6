const LEVEL = 0.05

/**
 * Returns for each p-value whether it is significant. Holm's method keeps the probability of even one false claim among all
 * of them at 5 %.
 */
export function selectSignificant(probabilities: readonly number[]): boolean[] {
  const order = probabilities.map((_, index) => index).sort((a, b) => at(probabilities, a) - at(probabilities, b))
  const firstRejected = order.findIndex((index, step) => at(probabilities, index) > LEVEL / (order.length - step))
  const significant = new Set(firstRejected < 0 ? order : order.slice(0, firstRejected))
  return probabilities.map((_, index) => significant.has(index))
}

const at = (values: readonly number[], index: number): number => values[index] ?? 1

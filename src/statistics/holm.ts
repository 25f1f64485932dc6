const SIGNIFICANCE_LEVEL = 0.05

/**
 * Returns for each p-value whether it is significant. Holm's method limits the probability of one or more false
 * positives among all of them to 5 %.
 */
export function selectSignificant(probabilities: readonly number[]): boolean[] {
  const order = probabilities
    .map((_, index) => index)
    .sort((a, b) => valueAt(probabilities, a) - valueAt(probabilities, b))
  const firstInsignificant = order.findIndex(
    (index, step) => valueAt(probabilities, index) > SIGNIFICANCE_LEVEL / (order.length - step),
  )
  const significant = new Set(firstInsignificant < 0 ? order : order.slice(0, firstInsignificant))
  return probabilities.map((_, index) => significant.has(index))
}

const valueAt = (values: readonly number[], index: number): number => values[index] ?? 1

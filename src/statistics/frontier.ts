/** The results of a setting as whole numbers: products of whole numbers compare averages without rounding. */
export type Point = { id: string; tasks: number; passed: number; micros: number }

/**
 * Returns the ids of the settings that no other setting beats, from cheap to expensive and then by id. Exact ties all
 * stay. A setting that passed nothing is left out unless no setting passed anything.
 */
export function frontier(points: readonly Point[]): string[] {
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

/** Negative, zero or positive, like the difference of the two. Exact for products beyond 2^53. */
const compareFractions = ([a, b]: Fraction, [c, d]: Fraction): number =>
  Number(BigInt(a) * BigInt(d) - BigInt(c) * BigInt(b))

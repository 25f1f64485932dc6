/** A setting as whole numbers: comparing quotients by their products leaves no room for rounding. */
export type Point = { id: string; tasks: number; passed: number; micros: number }

/** Settings that no other beats: none is as cheap and as accurate, and better in one of them. Exact ties stay. */
export function frontier(points: readonly Point[]): string[] {
  const somePass = points.some(({ passed }) => passed > 0)
  return points
    .filter((point) => point.passed > 0 || !somePass)
    .filter((point) => !points.some((other) => beats(other, point)))
    .sort((a, b) => byCost(a, b) || byAccuracy(b, a) || (a.id < b.id ? -1 : 1))
    .map(({ id }) => id)
}

const byCost = (a: Point, b: Point): number => difference(a.micros, b.tasks, b.micros, a.tasks)
const byAccuracy = (a: Point, b: Point): number => difference(a.passed, b.tasks, b.passed, a.tasks)

/** Less than, equal to or more than 0 as `a·b - c·d` is, however large they are. */
function difference(a: number, b: number, c: number, d: number): number {
  const [left, right] = [a * b, c * d]
  if (Number.isSafeInteger(left) && Number.isSafeInteger(right)) return left - right
  return Number(BigInt(a) * BigInt(b) - BigInt(c) * BigInt(d))
}

const beats = (a: Point, b: Point): boolean =>
  byCost(a, b) <= 0 && byAccuracy(a, b) >= 0 && (byCost(a, b) < 0 || byAccuracy(a, b) > 0)

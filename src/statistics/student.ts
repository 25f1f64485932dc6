/** Returns P(|T| > |t|) for Student's t-distribution. */
export function twoSidedPValue(t: number, degrees: number): number {
  return incompleteBeta(degrees / (degrees + t * t), degrees / 2, 0.5)
}

/** Returns P(T > t). */
export const oneSidedPValue = (t: number, degrees: number): number => {
  const half = twoSidedPValue(t, degrees) / 2
  return t >= 0 ? half : 1 - half
}

const quantileCache = new Map<string, number>()
const CACHE_MAX = 10_000

/** Returns the t for which P(|T| > t) is the given probability. */
export function quantile(twoSidedProbability: number, degrees: number): number {
  const key = `${twoSidedProbability} ${degrees}`
  const cached = quantileCache.get(key)
  if (cached !== undefined) return cached
  const value = searchQuantile(twoSidedProbability, degrees)
  if (quantileCache.size < CACHE_MAX) quantileCache.set(key, value)
  return value
}

/** Searches the quantile by bisection. */
function searchQuantile(twoSidedProbability: number, degrees: number): number {
  let [low, high] = [0, 1e6]
  for (let step = 0; step < 100; step++) {
    const middle = (low + high) / 2
    if (twoSidedPValue(middle, degrees) > twoSidedProbability) low = middle
    else high = middle
  }
  return high
}

/** Returns the regularized incomplete beta function, by Lentz's method on the side where the continued fraction converges fast. */
function incompleteBeta(x: number, a: number, b: number): number {
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x))
  return x < (a + 1) / (a + b + 2)
    ? (front * continuedFraction(x, a, b)) / a
    : 1 - (front * continuedFraction(1 - x, b, a)) / b
}

const TINY = 1e-300
const avoidZero = (value: number): number => (Math.abs(value) < TINY ? TINY : value)

function continuedFraction(x: number, a: number, b: number): number {
  let c = 1
  let d = 1 / avoidZero(1 - ((a + b) * x) / (a + 1))
  let product = d
  for (let m = 1; m <= 500; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m))
    d = 1 / avoidZero(1 + even * d)
    c = avoidZero(1 + even / c)
    product *= d * c
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))
    d = 1 / avoidZero(1 + odd * d)
    c = avoidZero(1 + odd / c)
    product *= d * c
    if (Math.abs(d * c - 1) < 1e-15) break
  }
  return product
}

const LANCZOS = [
  676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905,
  -0.13857109526572012, 9.984369578019572e-6, 1.5056327351493116e-7,
]

/** Returns the logarithm of the gamma function by the Lanczos approximation, for x ≥ 0.5. */
function logGamma(x: number): number {
  const base = x - 1 + 7.5
  const sum = LANCZOS.reduce((all, term, index) => all + term / (x + index), 0.9999999999998099)
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(base) - base + Math.log(sum)
}

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

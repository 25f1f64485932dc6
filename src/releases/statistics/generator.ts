/**
 * Numbers from 0 to below 2^32 that follow from a seed: sfc32, started with the first twelve bytes of the seed and a
 * counter of 1, and stirred twelve times. The seed is a SHA-256 in hexadecimal.
 */
export function generator(seed: string): () => number {
  const word = (place: number): number => Number.parseInt(seed.slice(8 * place, 8 * place + 8), 16) | 0
  let [a, b, c, counter] = [word(0), word(1), word(2), 1]
  const next = (): number => {
    const sum = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + sum) | 0
    return sum >>> 0
  }
  for (let stir = 0; stir < 12; stir++) next()
  return next
}

/** Below `count`, each as likely as the others to one in four thousand million. */
export const below = (next: () => number, count: number): number => Math.floor((next() / 4_294_967_296) * count)

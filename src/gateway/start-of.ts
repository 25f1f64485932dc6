import type { Readable } from 'node:stream'

/** So much of an answer, and not more. */
export async function startOf(body: Readable, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of body) {
      chunks.push(chunk)
      length += chunk.length
      if (length > bytesMax) break
    }
  } catch {
    // What came is what there is.
  }
  return Buffer.concat(chunks).subarray(0, bytesMax)
}

import { hash } from 'node:crypto'

/**
 * Tightens the upper bound of input tokens with counts from the provider. Conversations grow: most of a request was part
 * of an earlier one, whose tokens are known. Only new bytes count as one token each.
 */
export type InputMemory = {
  bound(grantId: string, body: Uint8Array): { tokens: number; digest: BodyDigest }
  /** Stores the input tokens, cached ones included, that the provider billed for the body with this digest. */
  learn(grantId: string, digest: BodyDigest, inputTokens: number): void
}

/** Hashes of the blocks of a body, counted from its start and from its end. */
type BodyDigest = { bytes: number; fromStart: string[]; fromEnd: string[] }
type KnownBody = { digest: BodyDigest; tokens: number }

const BLOCK_BYTES = 1024
/** Larger bodies are not hashed, because that would block other calls. */
const HASHED_BYTES_MAX = 4 * 1024 * 1024
const GRANTS_MAX = 1000
/** Agents with subagents hold several conversations at once. */
const BODIES_MAX = 4
/** A body with more bytes per token consists mostly of data that the provider ignores, and predicts nothing. */
const BYTES_PER_TOKEN_MAX = 6
/** Extra tokens where known and new text meet. */
const SEAM_TOKENS = 64

export function openInputMemory(): InputMemory {
  const known = new Map<string, KnownBody[]>()
  return {
    bound(grantId, body) {
      const digest = digestBody(body)
      const bounds = (known.get(grantId) ?? []).map(
        (one) => one.tokens + countNewBytes(one.digest, digest) + SEAM_TOKENS,
      )
      return { tokens: Math.min(digest.bytes, ...bounds), digest }
    },
    learn(grantId, digest, tokens) {
      if (digest.fromStart.length === 0 || digest.bytes > tokens * BYTES_PER_TOKEN_MAX) return
      const bodies = [{ digest, tokens }, ...(known.get(grantId) ?? [])].slice(0, BODIES_MAX)
      known.delete(grantId)
      known.set(grantId, bodies)
      const [oldest] = known.keys()
      if (known.size > GRANTS_MAX && oldest !== undefined) known.delete(oldest)
    },
  }
}

function digestBody(body: Uint8Array): BodyDigest {
  const count = body.length > HASHED_BYTES_MAX ? 0 : Math.floor(body.length / BLOCK_BYTES)
  const blocks = Array.from({ length: count }, (_, index) => index * BLOCK_BYTES)
  const hashAt = (start: number) => hash('sha256', body.subarray(start, start + BLOCK_BYTES), 'base64').slice(0, 16)
  return {
    bytes: body.length,
    fromStart: blocks.map(hashAt),
    fromEnd: blocks.map((offset) => hashAt(body.length - offset - BLOCK_BYTES)),
  }
}

/** Counts the bytes of a body that are not part of the known one. */
function countNewBytes(known: BodyDigest, body: BodyDigest): number {
  const most = Math.min(known.fromStart.length, body.fromStart.length)
  const start = commonLength(known.fromStart, body.fromStart, most)
  const end = commonLength(known.fromEnd, body.fromEnd, most - start)
  return body.bytes - (start + end) * BLOCK_BYTES
}

function commonLength(one: readonly string[], other: readonly string[], most: number): number {
  const differing = one.slice(0, most).findIndex((block, index) => block !== other[index])
  return differing < 0 ? most : differing
}

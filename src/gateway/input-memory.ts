import { hash } from 'node:crypto'
import type { Json, JsonObject } from '../harnesses/json.ts'
import type { ConversationMembers } from './wire-protocol.ts'

/**
 * Tightens the upper bound of input tokens with counts from the provider. Conversations grow: most of a request was part
 * of an earlier one, whose tokens are known. Only the added bytes count as one token each.
 */
export type InputMemory = {
  /** Returns an upper bound of the input tokens of a request of this many bytes. */
  bound(grantId: string, request: DigestedRequest): number
  /** Stores the input tokens, cached ones included, that the provider billed for a request. */
  learn(grantId: string, request: DigestedRequest, inputTokens: number): void
}

/** A request and the digest of its conversation. Null: it has none that could be recognised. */
export type DigestedRequest = { bytes: number; digest: ConversationDigest | null }

/**
 * Hashes of a request. Providers may leave out parts of a conversation, depending on other parts of the request: results
 * of old tools, deferred tools, members that they do not know. A known count therefore says something only about a request
 * that repeats all turns and differs in nothing else.
 */
export type ConversationDigest = {
  /** Hash of everything besides the turns and the instructions. */
  settings: string
  instructions: PieceDigest[]
  turns: PieceDigest[]
}

type PieceDigest = { hash: string; bytes: number }

/** Members that limit or shape the output, or its transport. They do not change what the model reads. */
const OUTPUT_MEMBERS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens', 'stream', 'stream_options']
const TURNS_MAX = 10_000

/** Digests a request. `scope` names everything else that determines how the provider reads the request, such as headers. */
export function digestConversation(
  body: JsonObject,
  members: ConversationMembers,
  scope: string,
): ConversationDigest | null {
  const { [members.turns]: turns, ...others } = body
  const instructions = members.instructions === undefined ? undefined : others[members.instructions]
  if (!Array.isArray(turns) || turns.length > TURNS_MAX) return null
  const isSplit = members.instructions !== undefined && Array.isArray(instructions)
  const settings = Object.entries(others).filter(
    ([name]) => !OUTPUT_MEMBERS.includes(name) && !(isSplit && name === members.instructions),
  )
  return {
    settings: toHash(JSON.stringify([scope, settings.toSorted(([one], [other]) => (one < other ? -1 : 1))])),
    instructions: isSplit ? instructions.map(digestPiece) : [],
    turns: turns.map(digestPiece),
  }
}

/** Digests a turn. `cache_control` moves from turn to turn; it is left out of the hash, but not of the length. */
function digestPiece(piece: Json): PieceDigest {
  const bytes = Buffer.byteLength(JSON.stringify(piece))
  return { hash: toHash(JSON.stringify(withoutCacheControls(piece))), bytes }
}

function withoutCacheControls(piece: Json): Json {
  if (piece === null || typeof piece !== 'object' || Array.isArray(piece)) return piece
  const { cache_control: _, content, ...others } = piece
  if (content === undefined) return others
  return { ...others, content: Array.isArray(content) ? content.map(withoutOwnCacheControl) : content }
}

function withoutOwnCacheControl(block: Json): Json {
  if (block === null || typeof block !== 'object' || Array.isArray(block)) return block
  const { cache_control: _, ...others } = block
  return others
}

const toHash = (text: string): string => hash('sha256', text, 'base64').slice(0, 22)

const GRANTS_MAX = 1000
/** Number of latest requests that are known of a grant. Agents with subagents hold several conversations at once. */
const REQUESTS_MAX = 4
/** A request with more bytes per token consists mostly of data that the provider ignores, and predicts nothing. */
const BYTES_PER_TOKEN_MAX = 6
/** Extra tokens where known and new text meet. */
const SEAM_TOKENS = 64

type KnownRequest = { digest: ConversationDigest; tokens: number }

export function openInputMemory(): InputMemory {
  const requestsByGrant = new Map<string, KnownRequest[]>()
  const listKnown = (grantId: string): KnownRequest[] => requestsByGrant.get(grantId) ?? []
  return {
    bound(grantId, { bytes, digest }) {
      if (!digest) return bytes
      const bounds = listKnown(grantId).flatMap((known) => {
        const addedBytes = countAddedBytes(known.digest, digest)
        return addedBytes === undefined ? [] : [known.tokens + addedBytes + SEAM_TOKENS]
      })
      return Math.min(bytes, ...bounds)
    },
    learn(grantId, { bytes, digest }, tokens) {
      if (!digest || bytes > tokens * BYTES_PER_TOKEN_MAX) return
      const requests = [{ digest, tokens }, ...listKnown(grantId)].slice(0, REQUESTS_MAX)
      requestsByGrant.delete(grantId)
      requestsByGrant.set(grantId, requests)
      const [oldest] = requestsByGrant.keys()
      if (requestsByGrant.size > GRANTS_MAX && oldest !== undefined) requestsByGrant.delete(oldest)
    },
  }
}

/** Counts the bytes that a request adds to a known one. Returns undefined if it does not continue the known request. */
function countAddedBytes(known: ConversationDigest, request: ConversationDigest): number | undefined {
  if (known.settings !== request.settings || known.turns.length > request.turns.length) return undefined
  if (known.turns.some((turn, at) => turn.hash !== request.turns[at]?.hash)) return undefined
  return countChangedBytes(known.instructions, request.instructions) + countChangedBytes(known.turns, request.turns)
}

/** Counts the bytes of new and changed pieces, and those by which others grew. */
const countChangedBytes = (known: readonly PieceDigest[], pieces: readonly PieceDigest[]): number =>
  pieces.reduce((sum, piece, at) => {
    const before = known[at]
    return sum + (before?.hash === piece.hash ? Math.max(0, piece.bytes - before.bytes) : piece.bytes)
  }, 0)

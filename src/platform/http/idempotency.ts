import { createHash } from 'node:crypto'
import { type Db, lock, transact } from '../db/db.ts'
import { idempotencyKeyReused, idempotencyKeySpent, invalidRequest, Problem } from '../problem.ts'
import type { ReadyAnswer } from './endpoint.ts'
import { deleteIdempotencyKey, deleteOldIdempotencyKeys, findIdempotencyKey, insertIdempotencyKey } from './sql.ts'

export type Answer = {
  status: number
  text: string
  headers: Record<string, string>
  /** In place of the text. */
  stream?: ReadableStream<Uint8Array>
  ready?: ReadyAnswer
}

export type Repeatable = {
  scope: string
  key: string
  /** All that makes the request what it is: operation, address, body. */
  request: unknown
  /** The answer shows a secret, so only the fact that there was one is kept. */
  secret: boolean
}

/**
 * Runs `work` once for a key: its writes and the memory of its answer are one transaction.
 * A second request with the same key waits for the first, then gets the same answer.
 */
export function once(db: Db, request: Repeatable, work: (tx: Db) => Promise<Answer>): Promise<Answer> {
  requireKey(request.key)
  const requestHash = hashOf(request)
  return transact(db, async (tx) => {
    const before = await findLocked(tx, request)
    if (before) return replay(before, requestHash)

    const answer = await work(tx)
    await insertIdempotencyKey(tx, {
      scope: request.scope,
      key: request.key,
      request_hash: requestHash,
      status: request.secret ? null : answer.status,
      body: request.secret ? null : answer.text,
    })
    return answer
  })
}

/**
 * The same for work that takes minutes and is idempotent itself: no transaction is open meanwhile. A second request with
 * the same key may run at the same time, and gets the answer of whichever ends first. A key is free again when its
 * request fails.
 */
export async function onceAcrossTransactions(
  db: Db,
  request: Repeatable,
  work: () => Promise<Answer>,
): Promise<Answer> {
  requireKey(request.key)
  const own = { scope: request.scope, key: request.key, request_hash: hashOf(request) }
  const pending = { ...own, status: PENDING, body: null }
  const before = await transact(db, async (tx) => {
    const found = await findLocked(tx, own)
    if (!found) await insertIdempotencyKey(tx, pending)
    return found && replayUnlessPending(found, own.request_hash)
  })
  if (before) return before
  try {
    const answer = await work()
    return await transact(db, async (tx) => {
      const found = await findLocked(tx, own)
      const first = found && replayUnlessPending(found, own.request_hash)
      if (!first) await insertIdempotencyKey(tx, { ...own, status: answer.status, body: answer.text })
      return first ?? answer
    })
  } catch (error) {
    await deleteIdempotencyKey(db, pending)
    throw error
  }
}

/** Status of a key whose request has not been answered yet, or never will be because its process died. */
const PENDING = 0

const hashOf = ({ request }: Repeatable): Buffer => createHash('sha256').update(JSON.stringify(request)).digest()

async function findLocked(tx: Db, { scope, key }: { scope: string; key: string }) {
  await lock(tx, `idempotency ${scope} ${key}`)
  return findIdempotencyKey(tx, scope, key)
}

type StoredAnswer = { request_hash: Buffer; status: number | null; body: string | null }

function replayUnlessPending(before: StoredAnswer, requestHash: Buffer): Answer | undefined {
  const answer = replay(before, requestHash)
  return answer.status === PENDING ? undefined : answer
}

function replay(before: StoredAnswer, requestHash: Buffer): Answer {
  if (!before.request_hash.equals(requestHash)) {
    throw new Problem(idempotencyKeyReused, 'This Idempotency-Key came with another request before.')
  }
  if (before.status === null) {
    throw new Problem(idempotencyKeySpent, 'This request succeeded before, and its answer showed a secret.')
  }
  return { status: before.status, text: before.body ?? '', headers: { 'idempotent-replay': 'true' } }
}

function requireKey(key: string): void {
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return
  const message = 'must be 1 to 255 visible ASCII characters'
  throw new Problem(invalidRequest, `Idempotency-Key ${message}.`, {
    errors: [{ pointer: '/headers/idempotency-key', code: 'invalid_format', message }],
  })
}

/** Keys stand for their request for 24 hours. */
export const forgetOldKeys = async (db: Db): Promise<void> => void (await deleteOldIdempotencyKeys(db))

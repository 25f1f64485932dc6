import { createHash } from 'node:crypto'
import { type Db, lock, transact } from '../db/db.ts'
import { idempotencyKeyReused, idempotencyKeySpent, invalidRequest, Problem } from '../problem.ts'
import type { ReadyAnswer } from './endpoint.ts'
import { deleteOldIdempotencyKeys, findIdempotencyKey, insertIdempotencyKey } from './sql.ts'

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
  const requestHash = createHash('sha256').update(JSON.stringify(request.request)).digest()
  return transact(db, async (tx) => {
    await lock(tx, `idempotency ${request.scope} ${request.key}`)
    const before = await findIdempotencyKey(tx, request.scope, request.key)
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

function replay(
  before: { request_hash: Buffer; status: number | null; body: string | null },
  requestHash: Buffer,
): Answer {
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

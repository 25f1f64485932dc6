import { createHash } from 'node:crypto'
import { createConcurrencyLimit } from '../concurrency.ts'
import { type Db, lock, transact } from '../db/db.ts'
import { idempotencyKeyReused, idempotencyKeySpent, invalidRequest, Problem } from '../problem.ts'
import type { CachedResponse } from './endpoint.ts'
import { deleteIdempotencyKey, deleteOldIdempotencyKeys, findIdempotencyKey, insertIdempotencyKey } from './sql.ts'

export type HttpAnswer = {
  status: number
  text: string
  headers: Record<string, string>
  /** Sent instead of the text. */
  stream?: ReadableStream<Uint8Array>
  cached?: CachedResponse
}

type IdempotentRequest = {
  scope: string
  key: string
  /** Everything that identifies the request: operation, path, body. */
  request: unknown
  /** The response shows a secret, so only the fact that there was a response is stored. */
  hasSecret: boolean
  /** The work copies an uploaded file. */
  hasUpload: boolean
}

/**
 * Maximum number of uploads with a key that are processed at once. Each holds a database connection until its file has
 * been copied: without a limit, a few large files would take all connections of the process.
 */
const UPLOADS_MAX = 4
const limitUploads = createConcurrencyLimit(UPLOADS_MAX)

/**
 * Runs `work` once per key. Its writes and the stored response are one transaction. A second request with the same key
 * waits for the first and gets the same response.
 */
export async function runOnce(
  db: Db,
  request: IdempotentRequest,
  work: (tx: Db) => Promise<HttpAnswer>,
): Promise<HttpAnswer> {
  requireKey(request.key)
  const run = () => runInTransaction(db, request, work)
  return request.hasUpload ? limitUploads(run) : run()
}

function runInTransaction(
  db: Db,
  request: IdempotentRequest,
  work: (tx: Db) => Promise<HttpAnswer>,
): Promise<HttpAnswer> {
  const requestHash = hashRequest(request)
  return transact(db, async (tx) => {
    const stored = await findLocked(tx, request)
    if (stored) return replay(stored, requestHash)

    const answer = await work(tx)
    await insertIdempotencyKey(tx, {
      scope: request.scope,
      key: request.key,
      request_hash: requestHash,
      status: request.hasSecret ? null : answer.status,
      body: request.hasSecret ? null : answer.text,
    })
    return answer
  })
}

/**
 * Runs idempotent work that takes minutes, without the open transaction of `runOnce`. A second request with the
 * same key may run at the same time and gets the response of whichever ends first. A key is free again when its request
 * fails.
 */
export async function runOnceAcrossTransactions(
  db: Db,
  request: IdempotentRequest,
  work: () => Promise<HttpAnswer>,
): Promise<HttpAnswer> {
  requireKey(request.key)
  const identity = { scope: request.scope, key: request.key, request_hash: hashRequest(request) }
  const pending = { ...identity, status: PENDING, body: null }
  const stored = await transact(db, async (tx) => {
    const found = await findLocked(tx, identity)
    if (!found) await insertIdempotencyKey(tx, pending)
    return found && replayUnlessPending(found, identity.request_hash)
  })
  if (stored) return stored
  try {
    const answer = await work()
    return await transact(db, async (tx) => {
      const found = await findLocked(tx, identity)
      const first = found && replayUnlessPending(found, identity.request_hash)
      if (!first) await insertIdempotencyKey(tx, { ...identity, status: answer.status, body: answer.text })
      return first ?? answer
    })
  } catch (error) {
    await deleteIdempotencyKey(db, pending)
    throw error
  }
}

/** Status of a key whose request has not been answered yet, or never will be because its process died. */
const PENDING = 0

const hashRequest = ({ request }: IdempotentRequest): Buffer =>
  createHash('sha256').update(JSON.stringify(request)).digest()

async function findLocked(tx: Db, { scope, key }: { scope: string; key: string }) {
  await lock(tx, `idempotency ${scope} ${key}`)
  return findIdempotencyKey(tx, scope, key)
}

type StoredAnswer = { request_hash: Buffer; status: number | null; body: string | null }

function replayUnlessPending(stored: StoredAnswer, requestHash: Buffer): HttpAnswer | undefined {
  const answer = replay(stored, requestHash)
  return answer.status === PENDING ? undefined : answer
}

function replay(stored: StoredAnswer, requestHash: Buffer): HttpAnswer {
  if (!stored.request_hash.equals(requestHash)) {
    throw new Problem(idempotencyKeyReused, 'This Idempotency-Key was used for a different request. Use a new key.')
  }
  if (stored.status === null) {
    throw new Problem(
      idempotencyKeySpent,
      'The first request with this Idempotency-Key succeeded and showed a secret, which is not stored.',
    )
  }
  return { status: stored.status, text: stored.body ?? '', headers: { 'idempotent-replay': 'true' } }
}

function requireKey(key: string): void {
  if (/^[\x21-\x7e]{1,255}$/.test(key)) return
  const message = 'must be 1 to 255 visible ASCII characters'
  throw new Problem(invalidRequest, `Idempotency-Key ${message}.`, {
    errors: [{ pointer: '/headers/idempotency-key', code: 'invalid_format', message }],
  })
}

/** Deletes keys after their 24 hours. */
export const deleteExpiredIdempotencyKeys = async (db: Db): Promise<void> => void (await deleteOldIdempotencyKeys(db))

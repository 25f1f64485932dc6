import { createHash, timingSafeEqual } from 'node:crypto'
import type { Db } from '../platform/db/db.ts'
import type { Authenticate, Caller } from '../platform/http/caller.ts'
import { isKey, keyHash } from './key.ts'
import { csrfTokenOf, sessionHash } from './sessions.ts'
import { callerOf, findCallerByKey, findCallerBySession, markKeyUsed } from './sql.ts'

type Tools = { db: Db; operatorKey?: string | undefined }

/** Returns the test for the operator key. It needs no database, and compares in constant time. */
export function operatorKeyTest(operatorKey: string | undefined): (key: string) => boolean {
  const expected = operatorKey && createHash('sha256').update(operatorKey).digest()
  return (key) => (expected ? timingSafeEqual(createHash('sha256').update(key).digest(), expected) : false)
}

/** Asks the database each time, so that a revoked key is dead at once in every process. */
export function authenticator({ db, operatorKey }: Tools): Authenticate {
  const isOperator = operatorKeyTest(operatorKey)
  return async ({ bearer, sessionToken }) => {
    if (bearer !== undefined) return isOperator(bearer) ? { by: 'operator' } : byKey(db, bearer)
    if (sessionToken !== undefined) return bySession(db, sessionToken)
    return undefined
  }
}

async function byKey(db: Db, key: string): Promise<Caller | undefined> {
  if (!isKey(key)) return undefined
  const hash = keyHash(key)
  const row = await findCallerByKey(db, hash)
  if (!row || !timingSafeEqual(row.key_hash, hash)) return undefined
  if (row.use_is_stale) await markKeyUsed(db, row.key_id)
  return callerOf(row)
}

async function bySession(db: Db, token: string): Promise<Caller | undefined> {
  const hash = sessionHash(token)
  const row = await findCallerBySession(db, hash)
  if (!row) return undefined
  return { ...callerOf(row), session: { csrfToken: csrfTokenOf(token), hash, expiresAt: row.session_expires_at } }
}

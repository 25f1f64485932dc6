import { createHash, timingSafeEqual } from 'node:crypto'
import type { Db } from '../platform/db/db.ts'
import type { Authenticate, Caller } from '../platform/http/caller.ts'
import { hashKey, isKey } from './key.ts'
import { deriveCsrfToken, hashSessionToken } from './sessions.ts'
import { findCallerByKey, findCallerBySession, markKeyUsed, toCaller } from './sql.ts'

type AuthenticatorDeps = { db: Db; operatorKey?: string | undefined }

/** Returns the test for the operator key. It needs no database, and compares in constant time. */
export function createOperatorKeyTest(operatorKey: string | undefined): (key: string) => boolean {
  const expected = operatorKey && createHash('sha256').update(operatorKey).digest()
  return (key) => (expected ? timingSafeEqual(createHash('sha256').update(key).digest(), expected) : false)
}

/** Creates the authenticator. Queries the database each time, so that a revoked key is invalid at once everywhere. */
export function createAuthenticator({ db, operatorKey }: AuthenticatorDeps): Authenticate {
  const isOperator = createOperatorKeyTest(operatorKey)
  return async ({ bearer, sessionToken }) => {
    if (bearer !== undefined) return isOperator(bearer) ? { by: 'operator' } : authenticateKey(db, bearer)
    if (sessionToken !== undefined) return authenticateSession(db, sessionToken)
    return undefined
  }
}

async function authenticateKey(db: Db, key: string): Promise<Caller | undefined> {
  if (!isKey(key)) return undefined
  const hash = hashKey(key)
  const row = await findCallerByKey(db, hash)
  if (!row || !timingSafeEqual(row.key_hash, hash)) return undefined
  if (row.use_is_stale) await markKeyUsed(db, row.key_id)
  return toCaller(row)
}

async function authenticateSession(db: Db, token: string): Promise<Caller | undefined> {
  const hash = hashSessionToken(token)
  const row = await findCallerBySession(db, hash)
  if (!row) return undefined
  return { ...toCaller(row), session: { csrfToken: deriveCsrfToken(token), hash, expiresAt: row.session_expires_at } }
}

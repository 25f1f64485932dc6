import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { type Db, transact } from '../platform/db/db.ts'
import type { Authenticate, Caller, KeyCaller } from '../platform/http/caller.ts'
import { Problem, unauthenticated } from '../platform/problem.ts'
import { record } from './audit.ts'
import { hashKey, isKey } from './key.ts'
import type { Session } from './schema.ts'
import {
  findCallerByKey,
  findCallerBySession,
  insertSession,
  markKeyUsed,
  removeExpiredSessions,
  removeSession,
  toCaller,
} from './sql.ts'

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

const SESSION_HOURS = 12

/** Hashes a session token for storage. The CSRF token is derived from the token, so the database contains neither. */
const hashSessionToken = (token: string): Buffer => createHash('sha256').update(token).digest()
const deriveCsrfToken = (token: string): string => createHmac('sha256', token).update('csrf').digest('base64url')

/** Signs in with a key. The session ends with its key at the latest. */
export async function signIn(db: Db, key: string, requestId: string): Promise<{ token: string; session: Session }> {
  const row = isKey(key) ? await findCallerByKey(db, hashKey(key)) : undefined
  if (!row) throw new Problem(unauthenticated, 'This key is malformed, expired or revoked.')

  const caller = toCaller(row)
  const token = randomBytes(32).toString('base64url')
  const expiresAt = new Date(Date.now() + SESSION_HOURS * 3_600_000)
  await transact(db, async (tx) => {
    await insertSession(tx, { hash: hashSessionToken(token), key_id: caller.keyId, expires_at: expiresAt })
    const by = { workspaceId: caller.workspace.id, actor: `key:${caller.keyId}`, requestId }
    await record(tx, { ...by, action: 'session.created', subject: caller.keyId })
  })
  return {
    token,
    session: { ...toSession(caller), csrfToken: deriveCsrfToken(token), expiresAt: expiresAt.toISOString() },
  }
}

export const toSession = (caller: KeyCaller): Session => ({
  org: caller.workspace.login,
  permission: caller.permission,
  csrfToken: caller.session?.csrfToken ?? null,
  expiresAt: caller.session?.expiresAt.toISOString() ?? null,
})

export async function signOut(db: Db, caller: KeyCaller): Promise<void> {
  if (caller.session) await removeSession(db, caller.session.hash)
}

export const deleteExpiredSessions = async (db: Db): Promise<void> => void (await removeExpiredSessions(db))

import { createHash, createHmac, randomBytes } from 'node:crypto'
import { type Db, transact } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { Problem, unauthenticated } from '../platform/problem.ts'
import { record } from './audit.ts'
import { hashKey, isKey } from './key.ts'
import type { Session } from './schema.ts'
import { findCallerByKey, insertSession, removeExpiredSessions, removeSession, toCaller } from './sql.ts'

const HOURS = 12

/** Hashes a session token for storage. The CSRF token is derived from the token, so the database contains neither. */
export const hashSessionToken = (token: string): Buffer => createHash('sha256').update(token).digest()
export const deriveCsrfToken = (token: string): string => createHmac('sha256', token).update('csrf').digest('base64url')

/** Signs in with a key. The session ends with its key at the latest. */
export async function signIn(db: Db, key: string, requestId: string): Promise<{ token: string; session: Session }> {
  const row = isKey(key) ? await findCallerByKey(db, hashKey(key)) : undefined
  if (!row) throw new Problem(unauthenticated, 'This key is malformed, expired or revoked.')

  const caller = toCaller(row)
  const token = randomBytes(32).toString('base64url')
  const expiresAt = new Date(Date.now() + HOURS * 3_600_000)
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

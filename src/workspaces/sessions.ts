import { createHash, createHmac, randomBytes } from 'node:crypto'
import { type Db, transact } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { Problem, unauthenticated } from '../platform/problem.ts'
import { record } from './audit.ts'
import { isKey, keyHash } from './key.ts'
import type { Session } from './schema.ts'
import { callerOf, findCallerByKey, insertSession, removeExpiredSessions, removeSession } from './sql.ts'

const HOURS = 12

/** The cookie's value is kept only as a hash; the CSRF token is derived from it, so neither can be read in the database. */
export const sessionHash = (token: string): Buffer => createHash('sha256').update(token).digest()
export const csrfTokenOf = (token: string): string => createHmac('sha256', token).update('csrf').digest('base64url')

/** A session lives no longer than its key: revoking the key ends it. */
export async function signIn(db: Db, key: string, requestId: string): Promise<{ token: string; session: Session }> {
  const row = isKey(key) ? await findCallerByKey(db, keyHash(key)) : undefined
  if (!row) throw new Problem(unauthenticated, 'This key is malformed, expired or revoked.')

  const caller = callerOf(row)
  const token = randomBytes(32).toString('base64url')
  const expiresAt = new Date(Date.now() + HOURS * 3_600_000)
  await transact(db, async (tx) => {
    await insertSession(tx, { hash: sessionHash(token), key_id: caller.keyId, expires_at: expiresAt })
    const by = { workspaceId: caller.workspace.id, actor: `key:${caller.keyId}`, requestId }
    await record(tx, { ...by, action: 'session.created', subject: caller.keyId })
  })
  return { token, session: { ...sessionOf(caller), csrfToken: csrfTokenOf(token), expiresAt: expiresAt.toISOString() } }
}

export const sessionOf = (caller: KeyCaller): Session => ({
  org: caller.workspace.login,
  permission: caller.permission,
  csrfToken: caller.session?.csrfToken ?? null,
  expiresAt: caller.session?.expiresAt.toISOString() ?? null,
})

export async function signOut(db: Db, caller: KeyCaller): Promise<void> {
  if (caller.session) await removeSession(db, caller.session.hash)
}

export const endExpiredSessions = async (db: Db): Promise<void> => void (await removeExpiredSessions(db))

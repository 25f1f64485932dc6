import { type Db, lock, transact } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { newId } from '../platform/ids.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { record } from './audit.ts'
import { keyHash, newKey } from './key.ts'
import { storeKey } from './keys.ts'
import { loginTaken, type Workspace } from './schema.ts'
import {
  anyWorkspace,
  findKeyByHash,
  findWorkspace,
  insertWorkspace,
  listWorkspaceRows,
  promoteKey,
  storeVerified,
} from './sql.ts'

/** The workspace of a server that has only one. */
export const LOCAL = 'local'

type Wish = { login: string; name: string; kind: 'org' | 'user' }
type Created = { row: KeyCaller['workspace']; key: string }

/** A workspace comes with its first admin key; without one nobody could enter it. */
export const createWorkspace = (db: Db, wish: Wish, by: { actor: string; requestId?: string }): Promise<Created> =>
  transact(db, async (tx) => {
    const row = await insertWorkspace(tx, { id: newId(), ...wish })
    if (!row) throw new Problem(loginTaken, `The login ${wish.login} is taken.`)
    const key = newKey()
    await storeKey(tx, row.id, key, { name: 'first key', permission: 'admin', expiresAt: null })
    await record(tx, { ...by, workspaceId: row.id, action: 'workspace.created', subject: row.login })
    return { row: { id: row.id, login: row.login, name: row.name, kind: row.kind, createdAt: row.created_at }, key }
  })

export const workspaceOf = (row: KeyCaller['workspace'], credentialStorage: boolean): Workspace => ({
  login: row.login,
  name: row.name,
  kind: row.kind,
  credentialStorage,
  createdAt: row.createdAt.toISOString(),
})

/**
 * Gives an empty database its workspace, and makes sure of the operator's own admin key where one is set.
 * Answers the new key when it was made up here, so that it can be shown once.
 */
export const bootstrap = (db: Db, bootstrapKey: string | undefined): Promise<{ newKey?: string }> =>
  transact(db, async (tx) => {
    await lock(tx, 'bootstrap')
    const wish: Wish = { login: LOCAL, name: 'Local', kind: 'org' }
    if (bootstrapKey) {
      await ensureKey(tx, bootstrapKey, wish)
      return {}
    }
    if (await anyWorkspace(tx)) return {}
    return { newKey: (await createWorkspace(tx, wish, { actor: 'system' })).key }
  })

async function ensureKey(tx: Db, key: string, wish: Wish): Promise<void> {
  const workspace = (await findWorkspace(tx, wish.login)) ?? (await insertWorkspace(tx, { id: newId(), ...wish }))
  if (!workspace) throw new Error(`The workspace ${wish.login} could not be made.`)
  const existing = await findKeyByHash(tx, keyHash(key))
  if (existing && existing.workspace_id !== workspace.id) {
    throw new Error('ASSAY_BOOTSTRAP_KEY is already a key of another workspace. Choose a new one.')
  }
  if (existing) return void (await promoteKey(tx, existing.id))
  const stored = await storeKey(tx, workspace.id, key, { name: 'bootstrap key', permission: 'admin', expiresAt: null })
  await record(tx, { workspaceId: workspace.id, actor: 'system', action: 'key.created', subject: stored.id })
}

export async function readWorkspaceRow(db: Db, login: string): Promise<{ id: string; login: string }> {
  const row = await findWorkspace(db, login)
  if (!row) throw new Problem(notFound, `There is no workspace ${login}.`)
  return row
}

export const isOnlyWorkspace = async (db: Db): Promise<boolean> => (await listWorkspaceRows(db, 2)).length === 1

export type VerifiedWorkspace = { id: string; login: string; verifiedAt: Date | null }

/** Undefined: there is none with this login. */
export async function findWorkspaceByLogin(db: Db, login: string): Promise<VerifiedWorkspace | undefined> {
  const row = await findWorkspace(db, login)
  return row && { id: row.id, login: row.login, verifiedAt: row.verified_at }
}

/** Says, or takes back, that a workspace belongs to whom its login names. Twice is as good as once. */
export async function setVerified(tx: Db, login: string, isVerified: boolean): Promise<VerifiedWorkspace> {
  const row = await storeVerified(tx, login, isVerified)
  if (!row) throw new Problem(notFound, `There is no workspace ${login}.`)
  return { id: row.id, login: row.login, verifiedAt: row.verified_at }
}

export const listWorkspaces = (db: Db): Promise<{ id: string; login: string }[]> => listWorkspaceRows(db)

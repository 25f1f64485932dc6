import { type Db, lock, transact } from '../platform/db/db.ts'
import type { KeyCaller } from '../platform/http/caller.ts'
import { newId } from '../platform/ids.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { record } from './audit.ts'
import { hashKey, newKey } from './key.ts'
import { storeKey } from './keys.ts'
import { loginTaken, type Workspace } from './schema.ts'
import {
  findAnyWorkspace,
  findKeyByHash,
  findWorkspace,
  hasSeveralWorkspaces,
  insertWorkspace,
  listWorkspaces,
  promoteKey,
  storeVerified,
} from './sql.ts'

/** Login of the workspace that a new server creates. */
export const LOCAL = 'local'

type CreateWorkspaceInput = { login: string; name: string; kind: 'org' | 'user' }
type CreatedWorkspace = { row: KeyCaller['workspace']; key: string }

/** Creates a workspace and its first admin key. */
export const createWorkspace = (
  db: Db,
  input: CreateWorkspaceInput,
  by: { actor: string; requestId?: string },
): Promise<CreatedWorkspace> =>
  transact(db, async (tx) => {
    const row = await insertWorkspace(tx, { id: newId(), ...input })
    if (!row) throw new Problem(loginTaken, `The login ${input.login} is taken.`)
    const key = newKey()
    await storeKey(tx, row.id, key, { name: 'first key', permission: 'admin', expiresAt: null })
    await record(tx, { ...by, workspaceId: row.id, action: 'workspace.created', subject: row.login })
    return { row: { id: row.id, login: row.login, name: row.name, kind: row.kind, createdAt: row.created_at }, key }
  })

export const toWorkspace = (row: KeyCaller['workspace'], credentialStorage: boolean): Workspace => ({
  login: row.login,
  name: row.name,
  kind: row.kind,
  credentialStorage,
  createdAt: row.createdAt.toISOString(),
})

const LOCAL_WORKSPACE: CreateWorkspaceInput = { login: LOCAL, name: 'Local', kind: 'org' }

/** Creates the workspace of an empty database. Returns its admin key if it was created here, to be shown once. */
export const createFirstWorkspace = (db: Db): Promise<string | undefined> =>
  transact(db, async (tx) => {
    await lock(tx, 'bootstrap')
    if (await findAnyWorkspace(tx)) return undefined
    return (await createWorkspace(tx, LOCAL_WORKSPACE, { actor: 'system' })).key
  })

/** Makes the operator's bootstrap key an admin key of the local workspace, which is created if it is missing. Idempotent. */
export const ensureBootstrapKey = (db: Db, key: string): Promise<void> =>
  transact(db, async (tx) => {
    await lock(tx, 'bootstrap')
    const workspace =
      (await findWorkspace(tx, LOCAL)) ?? (await insertWorkspace(tx, { id: newId(), ...LOCAL_WORKSPACE }))
    if (!workspace) throw new Error(`The workspace ${LOCAL} could not be created.`)
    const existing = await findKeyByHash(tx, hashKey(key))
    if (existing && existing.workspace_id !== workspace.id) {
      throw new Error('ASSAY_BOOTSTRAP_KEY is already a key of another workspace. Choose a new one.')
    }
    if (existing) {
      await promoteKey(tx, existing.id)
      return
    }
    const input = { name: 'bootstrap key', permission: 'admin', expiresAt: null } as const
    const stored = await storeKey(tx, workspace.id, key, input)
    await record(tx, { workspaceId: workspace.id, actor: 'system', action: 'key.created', subject: stored.id })
  })

export async function readWorkspaceRow(db: Db, login: string): Promise<{ id: string; login: string }> {
  const row = await findWorkspace(db, login)
  if (!row) throw new Problem(notFound, `Workspace ${login} not found.`)
  return row
}

type VerifiedWorkspace = { id: string; login: string; verifiedAt: Date | null }

export async function findWorkspaceByLogin(db: Db, login: string): Promise<VerifiedWorkspace | undefined> {
  const row = await findWorkspace(db, login)
  return row && { id: row.id, login: row.login, verifiedAt: row.verified_at }
}

/** Marks or unmarks a workspace as verified. Idempotent. */
export async function setVerified(tx: Db, login: string, isVerified: boolean): Promise<VerifiedWorkspace> {
  const row = await storeVerified(tx, login, isVerified)
  if (!row) throw new Problem(notFound, `Workspace ${login} not found.`)
  return { id: row.id, login: row.login, verifiedAt: row.verified_at }
}

/** Queries that other folders, which may not import sql.ts, use as they are. */
export { hasSeveralWorkspaces, listWorkspaces }

/**
 * Maximum part of the memory budget of a host for the jobs of one workspace while there are others. A job that declares more
 * counts as this part, so all jobs together may use 4/3 of the budget: the whole memory, of which the default budget is 3/4.
 */
const WORKSPACE_MEMORY_SHARE = 0.75

/** Returns the part of a host's memory budget that the jobs of one workspace may take: all of it if there is no other. */
export const findMemoryShare = async (db: Db): Promise<number> =>
  (await hasSeveralWorkspaces(db)) ? WORKSPACE_MEMORY_SHARE : 1

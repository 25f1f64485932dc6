import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toCreationCursor, toPage } from '../platform/http/page.ts'
import { newId } from '../platform/ids.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from './audit.ts'
import { hashKey, newKey } from './key.ts'
import { type Key, lastAdminKey, type Permission, tooManyKeys } from './schema.ts'
import { countKeys, findKey, insertKey, listKeyRows, lockAdminKeys, lockKeys, removeKey } from './sql.ts'

type CreateKeyInput = { name: string; permission: Permission; expiresAt: string | null }

const KEYS_MAX = 1000

/** Creates a key. The key itself is returned once and only its hash is stored. */
export const createKey = (db: Db, by: AuditActor, input: CreateKeyInput): Promise<Key & { key: string }> =>
  transact(db, async (tx) => {
    await lockKeys(tx, by.workspaceId)
    if ((await countKeys(tx, by.workspaceId)) >= KEYS_MAX)
      throw new Problem(tooManyKeys, `A workspace has at most ${KEYS_MAX} keys.`)
    const key = newKey()
    const stored = await storeKey(tx, by.workspaceId, key, input)
    await record(tx, {
      ...by,
      action: 'key.created',
      subject: stored.id,
      detail: { name: input.name, permission: input.permission },
    })
    return { ...stored, key }
  })

/** Stores the hash of a key. Records no audit event: the caller does. */
export async function storeKey(tx: Db, workspaceId: string, key: string, input: CreateKeyInput): Promise<Key> {
  const row = await insertKey(tx, {
    id: newId(),
    workspace_id: workspaceId,
    name: input.name,
    permission: input.permission,
    hash: hashKey(key),
    last4: key.slice(-4),
    expires_at: input.expiresAt === null ? null : new Date(input.expiresAt),
  })
  return toKey(row)
}

export async function listKeys(db: Db, workspaceId: string, page: Page) {
  const rows = await listKeyRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(rows, page.limit, toCreationCursor)
  return { keys: items.map(toKey), nextCursor }
}

export async function readKey(db: Db, workspaceId: string, id: string): Promise<Key> {
  const row = await findKey(db, workspaceId, id)
  if (!row) throw new Problem(notFound, `Key ${id} not found.`)
  return toKey(row)
}

/** Revokes a key. The last admin key that does not expire is refused, because the workspace would become inaccessible. */
export const revokeKey = (db: Db, by: AuditActor, key: Key): Promise<void> =>
  transact(db, async (tx) => {
    const permanentAdminKeys = await lockAdminKeys(tx, by.workspaceId)
    if (permanentAdminKeys.length === 1 && permanentAdminKeys[0]?.id === key.id) {
      throw new Problem(lastAdminKey, 'This is the last admin key of the workspace. Create another one first.')
    }
    await removeKey(tx, key.id)
    await record(tx, { ...by, action: 'key.revoked', subject: key.id, detail: { name: key.name } })
  })

type KeyRow = Awaited<ReturnType<typeof insertKey>>

const toKey = (row: KeyRow): Key => ({
  id: row.id,
  name: row.name,
  permission: row.permission,
  last4: row.last4,
  createdAt: row.created_at.toISOString(),
  expiresAt: row.expires_at?.toISOString() ?? null,
  lastUsedAt: row.last_used_at?.toISOString() ?? null,
})

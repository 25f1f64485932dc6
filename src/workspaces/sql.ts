import { type Selectable, sql } from 'kysely'
import { type Db, executePrepared, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { KeyCaller, KeyPermission } from '../platform/http/caller.ts'
import type { Page } from '../platform/http/page.ts'

type NewWorkspace = { id: string; login: string; name: string; kind: 'org' | 'user' }

/** Inserts a workspace. Returns undefined if the login is taken. */
export const insertWorkspace = (db: Db, workspace: NewWorkspace) =>
  db
    .insertInto('workspaces')
    .values(workspace)
    .onConflict((conflict) => conflict.expression(sql`lower(login)`).doNothing())
    .returningAll()
    .executeTakeFirst()

export const findWorkspace = (db: Db, login: string) =>
  db.selectFrom('workspaces').selectAll().where(sql`lower(login)`, '=', login.toLowerCase()).executeTakeFirst()

export const findAnyWorkspace = (db: Db) => db.selectFrom('workspaces').select('id').limit(1).executeTakeFirst()

/** Returns true if there are at least two workspaces. */
export async function hasSeveralWorkspaces(db: Db): Promise<boolean> {
  return (await db.selectFrom('workspaces').select('id').limit(2).execute()).length > 1
}

export const listWorkspaces = (db: Db): Promise<{ id: string; login: string }[]> =>
  db.selectFrom('workspaces').select(['id', 'login']).orderBy('created_at').execute()

/** Sets or clears the verification. Keeps the date of the first verification. */
export const storeVerified = (tx: Db, login: string, isVerified: boolean) =>
  tx
    .updateTable('workspaces')
    .set({ verified_at: isVerified ? sql<Date>`coalesce(verified_at, now())` : null })
    .where(sql`lower(login)`, '=', login.toLowerCase())
    .returning(['id', 'login', 'verified_at'])
    .executeTakeFirst()

type NewKey = Omit<Selectable<DB['api_keys']>, 'created_at' | 'last_used_at'>

export const insertKey = (db: Db, key: NewKey) =>
  db.insertInto('api_keys').values(key).returningAll().executeTakeFirstOrThrow()

export const findKeyByHash = (db: Db, hash: Buffer) =>
  db.selectFrom('api_keys').selectAll().where('hash', '=', hash).executeTakeFirst()

export const promoteKey = (db: Db, id: string) =>
  db.updateTable('api_keys').set({ permission: 'admin', expires_at: null }).where('id', '=', id).execute()

export const listKeyRows = (db: Db, workspaceId: string, page: Page) =>
  db
    .selectFrom('api_keys')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .$call(pageNewestFirst('created_at', page))
    .execute()

/** Serializes new keys of a workspace. */
export const lockKeys = (tx: Db, workspaceId: string) => lock(tx, `keys ${workspaceId}`)

export async function countKeys(tx: Db, workspaceId: string): Promise<number> {
  const { count } = await tx
    .selectFrom('api_keys')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

/** Locks the admin keys of a workspace that do not expire, so that two requests cannot remove the last two at once. */
export const lockAdminKeys = (db: Db, workspaceId: string) =>
  db
    .selectFrom('api_keys')
    .select('id')
    .where('workspace_id', '=', workspaceId)
    .where('permission', '=', 'admin')
    .where('expires_at', 'is', null)
    .orderBy('id')
    .forUpdate()
    .execute()

export const findKey = (db: Db, workspaceId: string, id: string) =>
  db.selectFrom('api_keys').selectAll().where('workspace_id', '=', workspaceId).where('id', '=', id).executeTakeFirst()

export const removeKey = (db: Db, id: string) => db.deleteFrom('api_keys').where('id', '=', id).execute()

type CallerRow = {
  key_id: string
  key_hash: Buffer
  permission: KeyPermission
  expires_at: Date | null
  workspace_id: string
  login: string
  name: string
  kind: 'org' | 'user'
  created_at: Date
  use_is_stale: boolean
}

// Every request runs one of these two queries. They are plain text, because building them with Kysely each time would
// cost more than the rest of a small read.
const callerColumns = sql.raw(`
  api_keys.id as key_id, api_keys.hash as key_hash, api_keys.permission, api_keys.expires_at,
  workspaces.id as workspace_id, workspaces.login, workspaces.name, workspaces.kind, workspaces.created_at,
  api_keys.last_used_at is null or api_keys.last_used_at < now() - interval '1 minute' as use_is_stale`)
const isUnexpired = sql.raw('(api_keys.expires_at is null or api_keys.expires_at > now())')

export async function findCallerByKey(db: Db, hash: Buffer): Promise<CallerRow | undefined> {
  const { rows } = await executePrepared(
    db,
    sql<CallerRow>`
    select ${callerColumns} from api_keys join workspaces on workspaces.id = api_keys.workspace_id
    where api_keys.hash = ${hash} and ${isUnexpired}`,
  )
  return rows[0]
}

export async function findCallerBySession(
  db: Db,
  hash: Buffer,
): Promise<(CallerRow & { session_expires_at: Date }) | undefined> {
  const { rows } = await executePrepared(
    db,
    sql<CallerRow & { session_expires_at: Date }>`
    select ${callerColumns}, sessions.expires_at as session_expires_at
    from sessions join api_keys on api_keys.id = sessions.key_id join workspaces on workspaces.id = api_keys.workspace_id
    where sessions.hash = ${hash} and sessions.expires_at > now() and ${isUnexpired}`,
  )
  return rows[0]
}

export const toCaller = (row: CallerRow): KeyCaller => ({
  by: 'key',
  keyId: row.key_id,
  permission: row.permission,
  expiresAt: row.expires_at,
  workspace: { id: row.workspace_id, login: row.login, name: row.name, kind: row.kind, createdAt: row.created_at },
})

export const markKeyUsed = (db: Db, id: string) =>
  db.updateTable('api_keys').set({ last_used_at: sql<Date>`now()` }).where('id', '=', id).execute()

export const insertSession = (db: Db, session: { hash: Buffer; key_id: string; expires_at: Date }) =>
  db.insertInto('sessions').values(session).execute()

export const removeSession = (db: Db, hash: Buffer) => db.deleteFrom('sessions').where('hash', '=', hash).execute()

export const removeExpiredSessions = (db: Db) =>
  db.deleteFrom('sessions').where('expires_at', '<', sql<Date>`now()`).execute()

export type AuditRow = Omit<Selectable<DB['audit_events']>, 'detail'> & { detail: string }

export async function insertAuditEvent(db: Db, row: AuditRow): Promise<void> {
  const { workspace_id, sequence, hash } = row
  await db.insertInto('audit_events').values(row).execute()
  await db
    .insertInto('audit_heads')
    .values({ workspace_id, sequence, hash })
    .onConflict((conflict) => conflict.column('workspace_id').doUpdateSet({ sequence, hash }))
    .execute()
}

/** Finds the sequence number and hash of the newest event, which are stored apart from the events. */
export const findAuditHead = (db: Db, workspaceId: string) =>
  db.selectFrom('audit_heads').select(['sequence', 'hash']).where('workspace_id', '=', workspaceId).executeTakeFirst()

export const listAuditRows = (db: Db, workspaceId: string, before: number | undefined, limit: number) =>
  db
    .selectFrom('audit_events')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .$if(before !== undefined, (query) => query.where('sequence', '<', before ?? 0))
    .orderBy('sequence', 'desc')
    .limit(limit)
    .execute()

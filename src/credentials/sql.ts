import { sql } from 'kysely'
import { type Db, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { Page } from '../platform/http/page.ts'
import type { CredentialKind } from './schema.ts'
import { type Sealed, toSealedColumns } from './seal.ts'

const MASTER_KEY_LOCK = 'master key'

/** Takes the exclusive lock for creating, rotating or deleting master keys. Blocks sealing. */
export const lockMasterKeys = (tx: Db) => lock(tx, MASTER_KEY_LOCK)

/** Takes the same lock shared: any number of processes can seal. The lock queue is fair, so a rotation is not starved. */
export const shareMasterKeys = (tx: Db) =>
  sql`select pg_advisory_xact_lock_shared(hashtextextended(${MASTER_KEY_LOCK}, 0))`.execute(tx)

export const listMasterKeys = (db: Db) =>
  db.selectFrom('master_keys').select(['id', 'check_value', 'active']).orderBy('created_at').execute()

export const findActiveMasterKey = (db: Db) =>
  db.selectFrom('master_keys').select('id').where('active', '=', true).executeTakeFirst()

/** Makes this key the only one that seals new secrets. */
export async function activateMasterKey(tx: Db, id: string, checkValue: Buffer): Promise<void> {
  await tx.updateTable('master_keys').set({ active: false }).where('active', '=', true).execute()
  await tx
    .insertInto('master_keys')
    .values({ id, check_value: checkValue, active: true })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ active: true, check_value: checkValue }))
    .execute()
}

type KeyHolder = { id: string; host: string; processId: number; masterKeyIds: string[] }

export const upsertKeyHolder = (db: Db, { id, host, processId, masterKeyIds }: KeyHolder) =>
  sql`insert into key_holders (id, host, process_id, master_key_ids) values (${id}, ${host}, ${processId}, ${masterKeyIds})
    on conflict (id) do update set master_key_ids = excluded.master_key_ids, seen_at = now()`.execute(db)

export const deleteKeyHolder = (db: Db, id: string) => db.deleteFrom('key_holders').where('id', '=', id).execute()

/** Deletes the entries of processes that were not seen for this time. */
export const deleteDeadKeyHolders = (db: Db, seconds: number) =>
  sql`delete from key_holders where seen_at < now() - make_interval(secs => ${seconds})`.execute(db)

/** Lists the processes that cannot read this key. */
export async function listKeyHoldersWithout(db: Db, masterKeyId: string) {
  const { rows } = await sql<{ host: string; processId: number }>`
    select host, process_id as "processId" from key_holders
    where not ${masterKeyId} = any (master_key_ids) order by host, process_id`.execute(db)
  return rows
}

/** Every table with secrets that a master key opens. Each has the same columns for them. */
export const SEALED_TABLES = ['credentials', 'webhooks'] as const
export type SealedTable = (typeof SEALED_TABLES)[number]

/** Lists the keys with which secrets are still sealed. */
export async function listMasterKeysInUse(db: Db): Promise<string[]> {
  const used = SEALED_TABLES.map((table) => db.selectFrom(table).select('master_key_id').distinct().execute())
  return [...new Set((await Promise.all(used)).flat().map((row) => row.master_key_id))]
}

const WRAPPINGS_PER_QUERY = 500
type Wrapping = { masterKeyId: string; wrappedKey: Buffer }

/** Locks secrets that are sealed with another key, in the order of ids, after `after`. */
export const lockOtherWrappings = (tx: Db, table: SealedTable, masterKeyId: string, after: string) =>
  tx
    .selectFrom(table)
    .select(['id', 'workspace_id', 'version', 'kind', 'provider', 'master_key_id', 'wrapped_key'])
    .where('master_key_id', '<>', masterKeyId)
    .where('id', '>', after)
    .orderBy('id')
    .limit(WRAPPINGS_PER_QUERY)
    .forNoKeyUpdate()
    .execute()

export const setWrapping = (tx: Db, table: SealedTable, id: string, { masterKeyId, wrappedKey }: Wrapping) =>
  tx.updateTable(table).set({ master_key_id: masterKeyId, wrapped_key: wrappedKey }).where('id', '=', id).execute()

const CREDENTIAL_COLUMNS = ['id', 'kind', 'provider', 'name', 'hint', 'created_at', 'last_used_at'] as const

type NewCredential = {
  id: string
  workspace_id: string
  kind: CredentialKind
  provider: string
  name: string
  hint: string
  version: number
}

/** Serializes new credentials of a workspace. */
export const lockCredentials = (tx: Db, workspaceId: string) => lock(tx, `credentials ${workspaceId}`)

export async function countCredentials(tx: Db, workspaceId: string): Promise<number> {
  const { count } = await tx
    .selectFrom('credentials')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirstOrThrow()
  return Number(count)
}

export const insertCredential = (db: Db, credential: NewCredential, sealed: Sealed) =>
  db
    .insertInto('credentials')
    .values({ ...credential, ...toSealedColumns(sealed) })
    .returning(CREDENTIAL_COLUMNS)
    .executeTakeFirstOrThrow()

export const listCredentialRows = (db: Db, workspaceId: string, page: Page) =>
  db
    .selectFrom('credentials')
    .select(CREDENTIAL_COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .$call(pageNewestFirst('created_at', page))
    .execute()

export const findCredentialRow = (db: Db, workspaceId: string, id: string) =>
  db
    .selectFrom('credentials')
    .select(CREDENTIAL_COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .executeTakeFirst()

/** Finds a credential of a provider in any workspace. */
export const findProviderRow = (db: Db, kind: CredentialKind, provider: string) =>
  db
    .selectFrom('credentials')
    .select('id')
    .where('kind', '=', kind)
    .where('provider', '=', provider)
    .limit(1)
    .executeTakeFirst()

export const findNewestCredentialRow = (db: Db, workspaceId: string, kind: CredentialKind, provider: string) =>
  db
    .selectFrom('credentials')
    .select(CREDENTIAL_COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .where('kind', '=', kind)
    .where('provider', '=', provider)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()

/** Locks the row FOR NO KEY UPDATE: rows that reference it can still be written. */
export const lockCredentialVersion = (tx: Db, workspaceId: string, id: string) =>
  tx
    .selectFrom('credentials')
    .select('version')
    .where('workspace_id', '=', workspaceId)
    .where('id', '=', id)
    .forNoKeyUpdate()
    .executeTakeFirst()

type CredentialUpdate = {
  name: string | undefined
  secret: { hint: string; version: number; sealed: Sealed } | undefined
}

/** Updates a locked row. */
export const updateCredentialRow = (tx: Db, id: string, { name, secret }: CredentialUpdate) =>
  tx
    .updateTable('credentials')
    .set({ updated_at: sql<Date>`now()` })
    .set(name === undefined ? {} : { name })
    .set(secret ? { hint: secret.hint, version: secret.version, ...toSealedColumns(secret.sealed) } : {})
    .where('id', '=', id)
    .returning(CREDENTIAL_COLUMNS)
    .executeTakeFirstOrThrow()

export const deleteCredentialRow = (tx: Db, workspaceId: string, id: string) =>
  tx.deleteFrom('credentials').where('workspace_id', '=', workspaceId).where('id', '=', id).executeTakeFirstOrThrow()

const selectSealedRows = (db: Db, workspaceId: string) =>
  db
    .selectFrom('credentials')
    .select(['id', 'name', 'kind', 'provider', 'version', 'master_key_id', 'wrapped_key', 'ciphertext'])
    .select(sql<boolean>`last_used_at is null or last_used_at < now() - interval '1 minute'`.as('use_is_stale'))
    .where('workspace_id', '=', workspaceId)

export const findSealedRow = (db: Db, workspaceId: string, id: string) =>
  selectSealedRows(db, workspaceId).where('id', '=', id).executeTakeFirst()

export const listSealedRows = (db: Db, workspaceId: string) => selectSealedRows(db, workspaceId).orderBy('id').execute()

export const markCredentialUsed = (db: Db, id: string) =>
  db.updateTable('credentials').set({ last_used_at: sql<Date>`now()` }).where('id', '=', id).execute()

/** Finds the workspace that environment and built-in credentials are derived from. */
export async function findOwner(db: Db, workspaceId: string) {
  const row = await db
    .selectFrom('workspaces')
    .select(['id', 'login', 'created_at'])
    .where('id', '=', workspaceId)
    .executeTakeFirst()
  return row && { id: row.id, login: row.login, createdAt: row.created_at }
}

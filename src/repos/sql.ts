import { type Selectable, sql } from 'kysely'
import { type Db, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'

const COLUMNS = [
  'key',
  'id',
  'owner',
  'name',
  'source_kind',
  'host',
  'url',
  'credential_id',
  'visibility',
  'connected_at',
] as const

export type RepositoryRow = NonNullable<Awaited<ReturnType<typeof findRepositoryRow>>>
/** A repository of a workspace. Owner and name are compared without case. */
export type RepositoryRef = { workspaceId: string; owner: string; name: string }

/** Serialises connecting and removing, because a name may pass from one repository to another. */
export const lockRepositories = (tx: Db, workspaceId: string) => lock(tx, `repositories ${workspaceId}`)

const selectByName = (db: Db, { workspaceId, owner, name }: RepositoryRef) =>
  db
    .selectFrom('repositories')
    .select(COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .where(sql<boolean>`lower(owner) = lower(${owner}) and lower(name) = lower(${name})`)

export const findRepositoryRow = (db: Db, ref: RepositoryRef) =>
  selectByName(db, ref).where('removed_at', 'is', null).executeTakeFirst()

/** Lists plain git repositories of this name: the connected one first, then removed ones, the last removed first. */
export const listGitRows = (db: Db, ref: RepositoryRef) =>
  selectByName(db, ref).where('source_kind', '=', 'git').orderBy(sql`removed_at desc nulls first`).execute()

export const listRepositoryRows = (db: Db, workspaceId: string, page: Page) =>
  db
    .selectFrom('repositories')
    .select(COLUMNS)
    .where('workspace_id', '=', workspaceId)
    .where('removed_at', 'is', null)
    .$call(pageNewestFirst('connected_at', page, 'bigint'))
    .execute()

export const findGitRow = (db: Db, id: number) =>
  db.selectFrom('repositories').select('id').where('source_kind', '=', 'git').where('id', '=', id).executeTakeFirst()

export type NewRepository = Omit<
  Selectable<DB['repositories']>,
  'key' | 'connected_at' | 'removed_at' | 'visibility_checked_at'
>

/** Upserts a repository by its id. A renamed repository keeps its row. */
export const saveRepository = (tx: Db, row: NewRepository) =>
  tx
    .insertInto('repositories')
    .values(row)
    .onConflict((conflict) =>
      conflict.columns(['workspace_id', 'source_kind', 'host', 'id']).doUpdateSet({
        owner: row.owner,
        name: row.name,
        url: row.url,
        credential_id: row.credential_id,
        stored_credential_id: row.stored_credential_id,
        visibility: row.visibility,
        connected_at: sql<Date>`case when repositories.removed_at is null then repositories.connected_at else now() end`,
        removed_at: null,
      }),
    )
    .returning(COLUMNS)
    .executeTakeFirstOrThrow()

/** Records the time of the visibility check. The repositories checked longest ago are checked next. */
export const recordVisibilityCheck = (db: Db, key: number) =>
  db.updateTable('repositories').set({ visibility_checked_at: sql<Date>`now()` }).where('key', '=', key).execute()

export const setVisibility = (db: Db, key: number, visibility: 'public' | 'private') =>
  db.updateTable('repositories').set({ visibility }).where('key', '=', key).execute()

/** Removes a repository and releases its credential. */
export const removeRepositoryRow = (tx: Db, key: number) =>
  tx
    .updateTable('repositories')
    .set({ removed_at: sql<Date>`now()`, credential_id: null, stored_credential_id: null })
    .where('key', '=', key)
    .where('removed_at', 'is', null)
    .execute()

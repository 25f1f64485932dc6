import { type Selectable, sql } from 'kysely'
import { type Db, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'
import type { SettingPick } from './aggregate.ts'

/** Serializes publishing for one repository of a workspace. */
export const lockReleases = (tx: Db, repository: number) => lock(tx, `releases ${repository}`)

const RELEASE_COLUMNS = [
  'id',
  'workspace_id',
  'repository',
  'sequence',
  'owner',
  'name',
  'released_at',
  'fingerprint',
  'content_hash',
  'picks',
  'document',
  'language',
  'withdrawn_at',
  'withdrawn_reason',
] as const

export type ReleaseRow = Awaited<ReturnType<typeof listReleaseRows>>[number]

/** Finds the newest release, withdrawn or not. */
export const findNewest = (db: Db, repository: number) =>
  db
    .selectFrom('releases')
    .select(RELEASE_COLUMNS)
    .where('repository', '=', repository)
    .orderBy('sequence', 'desc')
    .limit(1)
    .executeTakeFirst()

export const listReleaseRows = (db: Db, repository: number, page: Page) =>
  db
    .selectFrom('releases')
    .select(RELEASE_COLUMNS)
    .where('repository', '=', repository)
    .$call(pageNewestFirst('released_at', page))
    .execute()

export const findReleaseRow = (db: Db, repository: number, id: string) =>
  db
    .selectFrom('releases')
    .select(RELEASE_COLUMNS)
    .where('repository', '=', repository)
    .where('id', '=', id)
    .executeTakeFirst()

type NamedRepository = { workspaceId: string; owner: string; name: string }

/** Compares the name in a request with the name that the repository has, or had when it was disconnected. */
const isNamed = ({ owner, name }: NamedRepository) =>
  sql<boolean>`lower(repositories.owner) = lower(${owner}) and lower(repositories.name) = lower(${name})`

/** Finds a release by id, whether or not its repository is still connected. */
export const findReleaseById = (db: Db, repository: NamedRepository, id: string) =>
  db
    .selectFrom('releases')
    .innerJoin('repositories', 'repositories.key', 'releases.repository')
    .select(RELEASE_COLUMNS.map((column) => `releases.${column}` as const))
    .where('releases.workspace_id', '=', repository.workspaceId)
    .where('releases.id', '=', id)
    .where(isNamed(repository))
    .executeTakeFirst()

/** Finds the disconnected repository of this name that published last. */
export const findDisconnected = (db: Db, repository: NamedRepository) =>
  db
    .selectFrom('releases')
    .innerJoin('repositories', 'repositories.key', 'releases.repository')
    .select('repositories.key')
    .where('releases.workspace_id', '=', repository.workspaceId)
    .where(isNamed(repository))
    .where('repositories.removed_at', 'is not', null)
    .orderBy('releases.released_at', 'desc')
    .limit(1)
    .executeTakeFirst()

/**
 * Lists code-host repositories with releases that may be public, connected or not. The least recently checked come
 * first.
 */
export const listPublicRepositories = (db: Db, limit: number) =>
  db
    .selectFrom('repositories')
    .select(['key', 'id', 'owner', 'name', 'source_kind', 'host', 'url', 'credential_id', 'visibility', 'connected_at'])
    .select('workspace_id as workspaceId')
    .where('source_kind', '=', 'github')
    .where('visibility', '=', 'public')
    .where(({ exists, selectFrom }) =>
      exists(selectFrom('releases').select('id').whereRef('releases.repository', '=', 'repositories.key')),
    )
    .orderBy(sql`visibility_checked_at nulls first`)
    .limit(limit)
    .execute()

type NewRelease = Omit<Selectable<DB['releases']>, 'picks' | 'withdrawn_at' | 'withdrawn_reason'> & {
  picks: SettingPick[]
}

export const insertRelease = (tx: Db, { picks, ...row }: NewRelease) =>
  tx
    .insertInto('releases')
    .values({ ...row, picks: JSON.stringify(picks) })
    .execute()

export type ReleaseIdentity = Pick<NewRelease, 'source_kind' | 'host' | 'repository_id' | 'owner' | 'name'>

/** Renames all releases of a repository, in every workspace, to its current name. Returns the older names. */
export async function renameReleases(tx: Db, { source_kind, host, repository_id, owner, name }: ReleaseIdentity) {
  const { rows } = await sql<{ owner: string; name: string }>`
    with old as (
      select id, owner, name from releases
      where source_kind = ${source_kind} and host = ${host} and repository_id = ${repository_id}
        and (owner <> ${owner} or name <> ${name})
      order by id for update
    ), renamed as (
      update releases set owner = ${owner}, name = ${name} from old where releases.id = old.id
    )
    select distinct owner, name from old`.execute(tx)
  return rows
}

/** Withdraws a release. Returns false if it was withdrawn already. */
export async function storeWithdrawal(tx: Db, id: string, reason: string): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('releases')
    .set({ withdrawn_at: sql<Date>`now()`, withdrawn_reason: reason })
    .where('id', '=', id)
    .where('withdrawn_at', 'is', null)
    .executeTakeFirstOrThrow()
  return numUpdatedRows > 0n
}

type PublicTask = { id: string; digest: string; title: string; difficulty: string | null }

/** Publishes task files under their names, replacing older files. Other tasks stay. Returns whether anything changed. */
export const replacePublicTasks = async (tx: Db, repository: number, tasks: readonly PublicTask[]) => {
  if (tasks.length === 0) return false
  const ids = tasks.map(({ id }) => id)
  const digests = tasks.map(({ digest }) => digest)
  await sql`
    delete from public_tasks
    where repository = ${repository} and (id = any(${ids}) or digest = any(${digests}))
      and (id, digest) not in (select * from unnest(${ids}::text[], ${digests}::text[]))`.execute(tx)
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('public_tasks')
    .values(tasks.map((task) => ({ repository, ...task })))
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirstOrThrow()
  return (numInsertedOrUpdatedRows ?? 0n) > 0n
}

export const listPublicTasks = (db: Db, repository: number) =>
  db
    .selectFrom('public_tasks')
    .select(['id', 'digest', 'title', 'difficulty', 'published_at'])
    .where('repository', '=', repository)
    .orderBy('id')
    .execute()

export const deletePublicTasks = (tx: Db, repository: number) =>
  tx.deleteFrom('public_tasks').where('repository', '=', repository).execute()

type PublicName = { owner: string; name: string }

/** Selects by name. Releases of a repository that is private now are not public, however old they are. */
const isPublicAs = ({ owner, name }: PublicName) =>
  sql<boolean>`lower(releases.owner) = lower(${owner}) and lower(releases.name) = lower(${name})
    and exists (select from repositories where key = releases.repository and visibility = 'public')`

/** The code host of a release. Every plain git repository is a host of its own. */
const ORIGIN = sql<string>`concat_ws(' ', releases.source_kind, releases.host,
  case releases.source_kind when 'git' then releases.repository_id end)`

/** True for the newest release of a repository of a workspace, unless it is withdrawn. */
const IS_HEAD = sql<boolean>`(releases.withdrawn_at is null and not exists (
  select from releases newer where newer.repository = releases.repository and newer.sequence > releases.sequence))`

/** Tests whether a release from another origin is public under the name. */
export async function isNameTaken(db: Db, { source_kind, host, repository_id, ...name }: ReleaseIdentity) {
  const ownOrigin = source_kind === 'git' ? `git ${host} ${repository_id}` : `${source_kind} ${host}`
  const other = await db
    .selectFrom('releases')
    .select('id')
    .where(isPublicAs(name))
    .where(IS_HEAD)
    .where(ORIGIN, '<>', ownOrigin)
    .executeTakeFirst()
  return other !== undefined
}

/**
 * Selects everything that one origin published under a name: the origin with the oldest release that is still public, or
 * if there is none, the origin that published last.
 */
const selectNamed = (db: Db, name: PublicName) =>
  db
    .selectFrom('releases')
    .select(RELEASE_COLUMNS)
    .where(isPublicAs(name))
    .where(ORIGIN, '=', (builder) =>
      builder
        .selectFrom('releases')
        .select(ORIGIN.as('origin'))
        .where(isPublicAs(name))
        .groupBy('origin')
        .orderBy(sql`bool_or(${IS_HEAD})`, 'desc')
        .orderBy(sql`min(releases.released_at) filter (where ${IS_HEAD})`)
        .orderBy(sql`max(releases.released_at)`, 'desc')
        .limit(1),
    )

/** Lists the public release of each publisher of this name. */
export const listHeadRows = (db: Db, owner: string, name: string): Promise<ReleaseRow[]> =>
  selectNamed(db, { owner, name }).where(IS_HEAD).orderBy('repository').execute()

/** Lists everything published under a name, newest first. */
export const listNamedRows = (db: Db, { owner, name, ...page }: Page & PublicName) =>
  selectNamed(db, { owner, name }).$call(pageNewestFirst('released_at', page)).execute()

export const findNamedRow = (db: Db, owner: string, name: string, id: string) =>
  selectNamed(db, { owner, name }).where('id', '=', id).executeTakeFirst()

/** Lists the names of an owner's repositories that have releases. */
export async function listOwnedNames(db: Db, owner: string): Promise<string[]> {
  const rows = await db
    .selectFrom('releases')
    .select(sql<string>`lower(name)`.as('name'))
    .distinct()
    .where(sql<boolean>`lower(owner) = lower(${owner})`)
    .orderBy(sql`1`)
    .execute()
  return rows.map(({ name }) => name)
}

export const upsertEndorsement = (tx: Db, ownerWorkspace: string, name: string, publisher: string) =>
  tx
    .insertInto('endorsements')
    .values({ owner_workspace: ownerWorkspace, name: name.toLowerCase(), publisher })
    .onConflict((conflict) => conflict.doNothing())
    .execute()

export const findEndorsement = (db: Db, ownerWorkspace: string, name: string, publisher: string) =>
  db
    .selectFrom('endorsements')
    .select('at')
    .where('owner_workspace', '=', ownerWorkspace)
    .where('name', '=', name.toLowerCase())
    .where('publisher', '=', publisher)
    .executeTakeFirst()

export const removeEndorsement = (tx: Db, ownerWorkspace: string, name: string, publisher: string) =>
  tx
    .deleteFrom('endorsements')
    .where('owner_workspace', '=', ownerWorkspace)
    .where('name', '=', name.toLowerCase())
    .where('publisher', '=', publisher)
    .execute()

export async function listEndorsed(db: Db, ownerWorkspace: string, name: string): Promise<Set<string>> {
  const rows = await db
    .selectFrom('endorsements')
    .select('publisher')
    .where('owner_workspace', '=', ownerWorkspace)
    .where('name', '=', name.toLowerCase())
    .execute()
  return new Set(rows.map(({ publisher }) => publisher))
}

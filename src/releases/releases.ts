import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { findRepository, type Place, type RepositoryRow, readRepository } from '../repos/repos.ts'
import { tell } from '../webhooks/tell.ts'
import { type By, record } from '../workspaces/audit.ts'
import { findWorkspaceByLogin } from '../workspaces/workspaces.ts'
import { documentOf } from './preview.ts'
import type { ReleaseTools } from './publish.ts'
import { releaseWithdrawn } from './schema.ts'
import { type PublishedRelease, type Release, SettingPicks } from './shapes/schema.ts'
import * as rows from './sql.ts'

export type ReleaseRow = rows.ReleaseRow

export async function listReleases(db: Db, repository: Pick<RepositoryRow, 'key'>, page: Page) {
  const newest = await rows.findNewest(db, repository.key)
  const found = await rows.listReleaseRows(db, repository.key, page)
  const place = (row: ReleaseRow) => ({ at: row.released_at, id: row.id })
  const { items, nextCursor } = toPage(found, page.limit, (row) => publishedOf(row, newest), place)
  return { releases: items, nextCursor }
}

/** Finds the repository whose releases are listed. A disconnected one still has its releases. */
export async function readReleasedRepository(db: Db, place: Place): Promise<Pick<RepositoryRow, 'key'>> {
  const connected = await findRepository(db, place)
  return connected ?? (await rows.findDisconnected(db, place)) ?? readRepository(db, place)
}

/** Reads a release of this workspace. Its repository need not be connected any more. */
export async function readReleaseRow(db: Db, place: Place, id: string): Promise<ReleaseRow> {
  const row = await rows.findReleaseById(db, place, id)
  if (row) return row
  throw new Problem(notFound, `There is no release ${id} here.`)
}

export const readRelease = async (db: Db, row: ReleaseRow): Promise<PublishedRelease> =>
  publishedOf(row, await rows.findNewest(db, row.repository))

export const publishedOf = (row: ReleaseRow, newest: ReleaseRow | undefined): PublishedRelease => ({
  ...documentOf(row),
  isHead: row.id === newest?.id && row.withdrawn_at === null,
  withdrawn: withdrawnOf(row),
})

const withdrawnOf = ({ withdrawn_at: at, withdrawn_reason: reason }: ReleaseRow): PublishedRelease['withdrawn'] =>
  at === null ? null : { at: at.toISOString(), reason: reason ?? '' }

/** Of the head: its line goes, and no older release takes its place. The files of its tasks go too. */
export async function withdrawRelease(
  tools: Pick<ReleaseTools, 'show'> & { db: Db },
  by: By,
  { id, repository }: ReleaseRow,
  reason: string,
): Promise<PublishedRelease> {
  const row = await transact(tools.db, async (tx) => {
    await rows.lockReleases(tx, repository)
    const isNew = await rows.storeWithdrawal(tx, id, reason)
    if (!isNew) throw new Problem(releaseWithdrawn, 'This release was withdrawn before.')
    const newest = await rows.findNewest(tx, repository)
    if (newest?.id === id) await rows.deletePublicTasks(tx, repository)
    await record(tx, { ...by, action: 'release.withdrawn', subject: id, detail: { reason } })
    const changed = await rows.findReleaseRow(tx, repository, id)
    if (!changed) return undefined
    const told = { repository: `${changed.owner}/${changed.name}`, releaseId: id, reason }
    await tell(tx, by.workspaceId, { type: 'release.withdrawn', data: told })
    await tools.show(tx, changed)
    return changed
  })
  if (!row) throw new Error('A release that was just withdrawn is gone.')
  return readRelease(tools.db, row)
}

export async function findPublicRelease(db: Db, repository: number): Promise<string | undefined> {
  const newest = await rows.findNewest(db, repository)
  return newest?.withdrawn_at === null ? newest.id : undefined
}

/** Withdraws the release that everybody reads, if there is one. */
export async function withdrawPublicRelease(
  tools: Pick<ReleaseTools, 'show'>,
  tx: Db,
  { by, repository, reason }: { by: By; repository: number; reason: string },
): Promise<void> {
  await rows.lockReleases(tx, repository)
  const newest = await rows.findNewest(tx, repository)
  if (newest?.withdrawn_at === null) await withdrawRelease({ ...tools, db: tx }, by, newest, reason)
}

/** What one publisher shows of a repository now. */
export type Head = {
  row: ReleaseRow
  release: Release
  picks: { id: string; roles: string[] }[]
  isOwn: boolean
  endorsed: boolean
}

/** All that is shown under a name. */
export async function listHeads(db: Db, owner: string, name: string): Promise<Head[]> {
  const found = await rows.listHeadRows(db, owner, name)
  const own = await findWorkspaceByLogin(db, owner)
  const isVerified = own !== undefined && own.verifiedAt !== null
  const endorsed = isVerified ? await rows.listEndorsed(db, own.id, name) : new Set<string>()
  return found.map((row) => {
    const isOwn = row.workspace_id === own?.id
    return {
      row,
      release: documentOf(row),
      picks: picksOf(row),
      isOwn,
      endorsed: isVerified && (isOwn || endorsed.has(row.workspace_id)),
    }
  })
}

const picksOf = ({ picks }: ReleaseRow): Head['picks'] => SettingPicks.parse(picks)

/** Whatever was published under a name, also what was withdrawn. Newest first. */
export async function listHistory(db: Db, place: { owner: string; name: string }, page: Page) {
  const found = await rows.listNamedRows(db, { ...place, ...page })
  return toPage(found, page.limit, releaseAndFate, (row) => ({ at: row.released_at, id: row.id }))
}

export async function findNamedRelease(db: Db, owner: string, name: string, id: string) {
  const row = await rows.findNamedRow(db, owner, name, id)
  return row && releaseAndFate(row)
}

const releaseAndFate = (row: ReleaseRow) => ({ ...documentOf(row), withdrawn: withdrawnOf(row) })

export const listPublicTasks = (db: Db, repository: number) => rows.listPublicTasks(db, repository)

import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import {
  findRepository,
  type RepositoryRef,
  type RepositoryRow,
  readRepository,
  refreshVisibility,
} from '../repos/repos.ts'
import { codeHostUnavailable } from '../repos/schema.ts'
import { emitEvent } from '../webhooks/emit.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { findWorkspaceByLogin } from '../workspaces/workspaces.ts'
import { fullNameOf, parseDocument } from './preview.ts'
import type { ReleaseDeps } from './publish.ts'
import { releaseWithdrawn } from './schema.ts'
import { type PublishedRelease, type Release, SettingPicks } from './shapes/schema.ts'
import * as rows from './sql.ts'

export async function listReleases(db: Db, repository: Pick<RepositoryRow, 'key'>, page: Page) {
  const newest = await rows.findNewest(db, repository.key)
  const listed = await rows.listReleaseRows(db, repository.key, page)
  const { items, nextCursor } = toPage(listed, page.limit, toCursor)
  return { releases: items.map((row) => toPublishedRelease(row, newest)), nextCursor }
}

const toCursor = ({ released_at: at, id }: rows.ReleaseRow) => ({ at, id })

/** Reads the repository whose releases are listed. A disconnected repository keeps its releases. Throws not found. */
export async function readReleasedRepository(db: Db, ref: RepositoryRef): Promise<Pick<RepositoryRow, 'key'>> {
  const connected = await findRepository(db, ref)
  return connected ?? (await rows.findDisconnected(db, ref)) ?? readRepository(db, ref)
}

/** Reads a release of this workspace, even if its repository has been disconnected. */
export async function readReleaseRow(db: Db, ref: RepositoryRef, id: string): Promise<rows.ReleaseRow> {
  const row = await rows.findReleaseById(db, ref, id)
  if (row) return row
  throw new Problem(notFound, `Release ${id} not found`)
}

export const readRelease = async (db: Db, row: rows.ReleaseRow): Promise<PublishedRelease> =>
  toPublishedRelease(row, await rows.findNewest(db, row.repository))

export const toPublishedRelease = (row: rows.ReleaseRow, newest: rows.ReleaseRow | undefined): PublishedRelease => ({
  ...parseDocument(row),
  isHead: row.id === newest?.id && row.withdrawn_at === null,
  withdrawn: toWithdrawal(row),
})

const toWithdrawal = ({
  withdrawn_at: at,
  withdrawn_reason: reason,
}: rows.ReleaseRow): PublishedRelease['withdrawn'] =>
  at === null ? null : { at: at.toISOString(), reason: reason ?? '' }

/** Withdraws a release. Withdrawing the head removes its line and task files; no older release replaces it. */
export async function withdrawRelease(
  deps: Pick<ReleaseDeps, 'updateResults'> & { db: Db },
  by: AuditActor,
  { id, repository }: rows.ReleaseRow,
  reason: string,
): Promise<PublishedRelease> {
  const row = await transact(deps.db, async (tx) => {
    await rows.lockReleases(tx, repository)
    const wasPublic = await rows.storeWithdrawal(tx, id, reason)
    if (!wasPublic) throw new Problem(releaseWithdrawn, 'This release is already withdrawn.')
    const newest = await rows.findNewest(tx, repository)
    if (newest?.id === id) await rows.deletePublicTasks(tx, repository)
    await record(tx, { ...by, action: 'release.withdrawn', subject: id, detail: { reason } })
    const withdrawn = await rows.findReleaseRow(tx, repository, id)
    if (!withdrawn) return undefined
    const data = { repository: fullNameOf(withdrawn), releaseId: id, reason }
    await emitEvent(tx, by.workspaceId, { type: 'release.withdrawn', data })
    await deps.updateResults(tx, withdrawn)
    return withdrawn
  })
  if (!row) throw new Error('Withdrawn release not found')
  return readRelease(deps.db, row)
}

export async function findPublicReleaseId(db: Db, repository: number): Promise<string | undefined> {
  const newest = await rows.findNewest(db, repository)
  return newest?.withdrawn_at === null ? newest.id : undefined
}

/** Returns true if a repository has releases, withdrawn ones included. */
export const hasReleases = async (db: Db, repository: number): Promise<boolean> =>
  (await rows.findNewest(db, repository)) !== undefined

/** Updates the public results after the visibility of a repository changed. The release of a private one is withdrawn. */
export async function applyVisibility(
  deps: Pick<ReleaseDeps, 'updateResults'>,
  tx: Db,
  { by, repository, visibility }: { by: AuditActor; repository: number; visibility: 'public' | 'private' },
): Promise<void> {
  if (visibility === 'private')
    await withdrawPublicRelease(deps, tx, { by, repository, reason: 'The repository is no longer public.' })
  // Older releases need an update too: the public history shows them only while the repository is public.
  const newest = await rows.findNewest(tx, repository)
  if (newest) await deps.updateResults(tx, newest)
}

/** Withdraws the public release of a repository, if there is one. */
export async function withdrawPublicRelease(
  deps: Pick<ReleaseDeps, 'updateResults'>,
  tx: Db,
  { by, repository, reason }: { by: AuditActor; repository: number; reason: string },
): Promise<void> {
  await rows.lockReleases(tx, repository)
  const newest = await rows.findNewest(tx, repository)
  if (newest?.withdrawn_at === null) await withdrawRelease({ ...deps, db: tx }, by, newest, reason)
}

/** The current release of one publisher for a repository. */
export type PublisherHead = {
  row: rows.ReleaseRow
  release: Release
  picks: { id: string; roles: string[] }[]
  isOwn: boolean
  endorsed: boolean
}

/** Lists the current releases of all publishers under a repository name. */
export async function listHeads(db: Db, owner: string, name: string): Promise<PublisherHead[]> {
  const headRows = await rows.listHeadRows(db, owner, name)
  const findRelation = await loadOwnerRelations(db, owner, name)
  return headRows.map((row) => {
    const { isOwn, endorsed } = findRelation(row.workspace_id)
    return { row, release: parseDocument(row), picks: parsePicks(row), isOwn, endorsed }
  })
}

/** Tells whether a publisher is the owner of the repository, and whether the owner vouches for its results. */
type OwnerRelation = Pick<PublisherHead, 'isOwn' | 'endorsed'>

/** Loads how the owner of a repository relates to workspaces that publish under its name. */
export async function loadOwnerRelations(
  db: Db,
  owner: string,
  name: string,
): Promise<(workspaceId: string) => OwnerRelation> {
  const ownerWorkspace = await findWorkspaceByLogin(db, owner)
  const isVerified = ownerWorkspace !== undefined && ownerWorkspace.verifiedAt !== null
  const endorsed = isVerified ? await rows.listEndorsed(db, ownerWorkspace.id, name) : new Set<string>()
  return (workspaceId) => {
    const isOwn = workspaceId === ownerWorkspace?.id
    return { isOwn, endorsed: isVerified && (isOwn || endorsed.has(workspaceId)) }
  }
}

const parsePicks = ({ picks }: rows.ReleaseRow): PublisherHead['picks'] => SettingPicks.parse(picks)

/** Lists everything ever published under a name, including withdrawn releases, newest first. */
export async function listHistory(db: Db, repository: { owner: string; name: string }, page: Page) {
  const listed = await rows.listNamedRows(db, { ...repository, ...page })
  const { items, nextCursor } = toPage(listed, page.limit, toCursor)
  return { items: items.map(toPublicRelease), nextCursor }
}

export async function findNamedRelease(db: Db, owner: string, name: string, id: string) {
  const row = await rows.findNamedRow(db, owner, name, id)
  return row && toPublicRelease(row)
}

/** Finds the picks that were chosen when the release was published. */
export async function findNamedPicks(db: Db, owner: string, name: string, id: string) {
  const row = await rows.findNamedRow(db, owner, name, id)
  return row && parsePicks(row)
}

const toPublicRelease = (row: rows.ReleaseRow) => ({ ...parseDocument(row), withdrawn: toWithdrawal(row) })

/** A query that other folders, which may not import sql.ts, use as it is. */
export const { listPublicTasks } = rows

const REPOSITORIES_MAX = 500

/**
 * Checks the visibility of every repository with a public release and withdraws the releases of those that became
 * private. Stops if the code host is unavailable or rate-limited; the next run continues with the rest.
 */
export async function checkVisibility(deps: ReleaseDeps, signal: AbortSignal): Promise<void> {
  for (const repository of await rows.listPublicRepositories(deps.db, REPOSITORIES_MAX)) {
    signal.throwIfAborted()
    try {
      await refreshVisibility(deps, repository)
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      if (error.kind === codeHostUnavailable) return
      // A refused credential or a renamed repository says nothing about the visibility.
    }
  }
}

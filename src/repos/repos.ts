import { randomInt } from 'node:crypto'
import { type Db, sqlStateOf, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { forbidden, notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import {
  findHostedRepository,
  type IdentityDeps,
  invalidField,
  loadHostedIdentity,
  loadIdentity,
  type RepositoryIdentity,
} from './identity.ts'
import {
  type ConnectRepositoryInput,
  type Repository,
  releasesPublic,
  repositoryBusy,
  repositoryNotFound,
} from './schema.ts'
import type { RepositoryRef, RepositoryRow } from './sql.ts'
import * as rows from './sql.ts'

export type { RepositoryRef, RepositoryRow }

export type RepositoryDeps = IdentityDeps & {
  /** Returns true if the repository has unfinished batches or comparisons. */
  isBusy: (db: Db, key: number) => Promise<boolean>
  /** Returns the id of the public release, if there is one. */
  findPublicReleaseId: (db: Db, key: number) => Promise<string | undefined>
  /** Returns true if there are releases, withdrawn ones included. */
  hasReleases: (db: Db, key: number) => Promise<boolean>
  /** Withdraws the public release, if there is one, in the same transaction. */
  withdrawPublicRelease: (tx: Db, by: AuditActor, key: number, reason: string) => Promise<void>
  /** Updates the public results for a visibility, in the same transaction. Private withdraws the public release. */
  applyVisibility: (tx: Db, by: AuditActor, key: number, visibility: RepositoryRow['visibility']) => Promise<void>
  /** Drops public answers that this process has cached. Call it after the transaction. */
  clearResults: () => void
}

export async function listRepositories(db: Db, workspaceId: string, page: Page) {
  const found = await rows.listRepositoryRows(db, workspaceId, page)
  const { items, nextCursor } = toPage(found, page.limit, (row) => ({ at: row.connected_at, id: String(row.id) }))
  return { repos: items.map(toRepository), nextCursor }
}

/** Finds a connected repository. */
export const findRepository = (db: Db, ref: RepositoryRef): Promise<RepositoryRow | undefined> =>
  rows.findRepositoryRow(db, ref)

export async function readRepository(db: Db, ref: RepositoryRef): Promise<RepositoryRow> {
  const row = await findRepository(db, ref)
  if (!row) throw notConnectedProblem(ref)
  return row
}

/**
 * Returns the visibility that the code host reports now, or for plain git the one that its owner has set. A repository
 * that turned private has its public release withdrawn.
 */
export async function refreshVisibility(deps: RepositoryDeps, row: RepositoryRow & { workspaceId: string }) {
  if (row.source_kind === 'git') return row.visibility
  await rows.recordVisibilityCheck(deps.db, row.key)
  const { repository } = await findHostedRepository(deps, row, row.credential_id ?? undefined)
  if (repository && repository.id !== row.id)
    throw new Problem(repositoryNotFound, `${formatName(row)} is now the name of another repository.`)
  // A repository that is no longer accessible is treated as private.
  const visibility = repository?.visibility ?? 'private'
  await transact(deps.db, async (tx) => {
    if (visibility !== row.visibility) await rows.setVisibility(tx, row.key, visibility)
    if (visibility !== row.visibility || visibility === 'private')
      await deps.applyVisibility(tx, { workspaceId: row.workspaceId, actor: 'system' }, row.key, visibility)
  })
  deps.clearResults()
  return visibility
}

type ConnectRepositoryResult = { kind: 'connected' | 'changed'; repository: Repository }

/**
 * Connects a repository or changes its connection. Without `mayWithdraw`, the caller cannot make a plain git repository
 * private while it has a public release, because that withdraws the release.
 */
export async function connectRepository(
  deps: RepositoryDeps,
  { mayWithdraw, ...by }: AuditActor & { mayWithdraw: boolean },
  ref: Omit<RepositoryRef, 'workspaceId'>,
  input: ConnectRepositoryInput,
): Promise<ConnectRepositoryResult> {
  const workspaceRef = { ...ref, workspaceId: by.workspaceId }
  const identity = await loadIdentity(deps, workspaceRef, input)
  const { row, isNew } = await saveIdentity(deps, by, workspaceRef, { ...identity, mayWithdraw })
  return { kind: isNew ? 'connected' : 'changed', repository: toRepository(row) }
}

/** Finds a repository for a write. A public repository is connected automatically. */
export async function requireRepository(
  deps: RepositoryDeps,
  by: AuditActor,
  ref: RepositoryRef,
): Promise<RepositoryRow> {
  const connected = await findRepository(deps.db, ref)
  if (connected) return connected
  const identity = await loadPublicIdentity(deps, ref)
  return (await saveIdentity(deps, by, ref, { ...identity, mayWithdraw: false })).row
}

/** Checks, without storing anything, that a repository is connected or could be connected automatically. */
export async function requireConnectable(deps: RepositoryDeps, ref: RepositoryRef): Promise<void> {
  if (!(await findRepository(deps.db, ref))) await loadPublicIdentity(deps, ref)
}

async function loadPublicIdentity(deps: RepositoryDeps, ref: RepositoryRef): Promise<RepositoryIdentity> {
  const identity = await loadHostedIdentity(deps, ref, undefined).catch((error: unknown) => {
    if (!(error instanceof Problem)) throw error
    throw error.kind.status < 500 ? notConnectedProblem(ref) : hostUnavailableProblem(ref, error)
  })
  if (identity.visibility !== 'public') throw notConnectedProblem(ref)
  return identity
}

function saveIdentity(
  deps: RepositoryDeps,
  by: AuditActor,
  ref: RepositoryRef,
  { mayWithdraw, ...identity }: RepositoryIdentity & { mayWithdraw: boolean },
) {
  return transact(deps.db, async (tx) => {
    await rows.lockRepositories(tx, by.workspaceId)
    const existing = await rows.findRepositoryRow(tx, ref)
    const id = identity.id ?? (await findGitId(deps, tx, ref, identity.url)) ?? (await createGitId(tx))
    const isSameRepository =
      existing?.source_kind === identity.source_kind && existing.host === identity.host && existing.id === id
    if (existing && !isSameRepository) await replaceRow(deps, tx, existing)
    const row = await rows
      .saveRepository(tx, { ...identity, id, workspace_id: by.workspaceId })
      .catch(toCredentialProblem)
    await record(tx, {
      ...by,
      action: 'repository.connected',
      subject: formatName(row),
      detail: { id: String(row.id) },
    })
    if (row.visibility === 'private' && !mayWithdraw) await requireNotDeclaredPrivate(deps, tx, row)
    await deps.applyVisibility(tx, by, row.key, row.visibility)
    return { row, isNew: !isSameRepository }
  }).finally(deps.clearResults)
}

/**
 * Finds the id of a plain git repository that was connected before. After a release, another address is another
 * repository, because it cannot be verified to have the same contents.
 */
async function findGitId(deps: RepositoryDeps, tx: Db, ref: RepositoryRef, url: string | null) {
  const known = await rows.listGitRows(tx, ref)
  const sameUrl = known.find((row) => row.url === url)
  if (sameUrl) return sameUrl.id
  const [last] = known
  return last && !(await deps.hasReleases(tx, last.key)) ? last.id : undefined
}

/** Throws if the caller, and not a code host, made a repository with a public release private. */
async function requireNotDeclaredPrivate(deps: RepositoryDeps, tx: Db, row: RepositoryRow): Promise<void> {
  if (row.source_kind !== 'git' || (await deps.findPublicReleaseId(tx, row.key)) === undefined) return
  throw new Problem(
    forbidden,
    `A release of ${formatName(row)} is public, and making the repository private withdraws it. Use a key with permission admin, or connect it with visibility public.`,
  )
}

/** Creates an id above all ids of code hosts. It is random, so that it does not reveal the number of repositories. */
async function createGitId(tx: Db): Promise<number> {
  const id = randomInt(2 ** 40, 2 ** 48)
  return (await rows.findGitRow(tx, id)) === undefined ? id : createGitId(tx)
}

const FOREIGN_KEY = '23503'

/** Converts the foreign key error of a credential that was deleted concurrently. */
function toCredentialProblem(error: unknown): never {
  if (sqlStateOf(error) !== FOREIGN_KEY) throw error
  throw invalidField('/credentialId', 'The credential was deleted.')
}

/**
 * Removes a repository whose name now belongs to another one. A code host confirms that. Plain git cannot confirm it, so
 * the removal is refused while a release is public.
 */
async function replaceRow(deps: RepositoryDeps, tx: Db, row: RepositoryRow): Promise<void> {
  if (row.source_kind === 'git') await requireNothingPublic(deps, tx, row)
  await removeRow(deps, tx, row)
}

/** Disconnects a repository. `withdraw`: whether its public release is withdrawn or stays. Undefined: throws if it has one. */
export function removeRepository(
  deps: RepositoryDeps,
  by: AuditActor,
  ref: RepositoryRef,
  withdraw: boolean | undefined,
): Promise<void> {
  return transact(deps.db, async (tx) => {
    await rows.lockRepositories(tx, by.workspaceId)
    const row = await readRepository(tx, ref)
    if (withdraw === undefined) await requireNothingPublic(deps, tx, row)
    if (withdraw) await deps.withdrawPublicRelease(tx, by, row.key, 'The repository was disconnected.')
    await removeRow(deps, tx, row)
    await record(tx, { ...by, action: 'repository.removed', subject: formatName(row) })
  }).finally(deps.clearResults)
}

async function requireNothingPublic({ findPublicReleaseId }: RepositoryDeps, tx: Db, row: RepositoryRow) {
  const releaseId = await findPublicReleaseId(tx, row.key)
  if (releaseId === undefined) return
  throw new Problem(releasesPublic, `A release of ${formatName(row)} is public. ${WITHDRAW_HINT}`, {
    members: { releaseId },
  })
}

const WITHDRAW_HINT =
  'Repeat the request with withdraw=true to withdraw the release, or with withdraw=false to keep it public.'

async function removeRow({ isBusy }: RepositoryDeps, tx: Db, row: RepositoryRow): Promise<void> {
  if (await isBusy(tx, row.key))
    throw new Problem(
      repositoryBusy,
      `${formatName(row)} has unfinished batches or comparisons. Wait for their end, or cancel them.`,
    )
  await rows.removeRepositoryRow(tx, row.key)
}

const formatName = ({ owner, name }: { owner: string; name: string }): string => `${owner}/${name}`

const notConnectedProblem = (ref: RepositoryRef): Problem =>
  new Problem(
    notFound,
    `The repository ${formatName(ref)} is not connected to this workspace. ${buildConnectHint(ref)}`,
  )

/** Explains that the code host could not be asked whether the repository is public. */
const hostUnavailableProblem = (ref: RepositoryRef, { kind, message, extra }: Problem): Problem =>
  new Problem(
    kind,
    `The repository ${formatName(ref)} is not connected to this workspace, and GitHub could not be reached: ${message} ${buildConnectHint(ref)}`,
    extra,
  )

const buildConnectHint = (ref: RepositoryRef): string =>
  `Connect it: assay repos connect ${formatName(ref)}, with --git <url> where it is not on GitHub.`

export const toRepository = (row: RepositoryRow): Repository => ({
  id: row.id,
  owner: row.owner,
  name: row.name,
  fullName: formatName(row),
  source: row.url === null ? { kind: 'github' } : { kind: 'git', url: row.url },
  credentialId: row.credential_id,
  visibility: row.visibility,
  connectedAt: row.connected_at.toISOString(),
})

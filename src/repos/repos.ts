import { randomInt } from 'node:crypto'
import { type Db, errorCode, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type By, record } from '../workspaces/audit.ts'
import { findHosted, hostedIdentity, type Identity, type IdentityTools, identityOf, refusedField } from './identity.ts'
import { type Repository, type RepositoryWish, releasesPublic, repositoryBusy, repositoryNotFound } from './schema.ts'
import * as rows from './sql.ts'

export type Place = rows.Place
export type RepositoryRow = rows.RepositoryRow

export type RepositoryTools = IdentityTools & {
  /** Whether something runs on it. */
  isBusy: (db: Db, key: number) => Promise<boolean>
  /** Returns the id of the release that everybody reads, if there is one. */
  findPublicRelease: (db: Db, key: number) => Promise<string | undefined>
  /** Withdraws the public release, if there is one, in the same transaction. */
  withdrawPublicRelease: (tx: Db, by: By, key: number, reason: string) => Promise<void>
  /** Drops public answers that this process has cached. Call it after the transaction. */
  forget: () => void
}

export async function listRepositories(db: Db, workspaceId: string, page: Page) {
  const found = await rows.listRepositoryRows(db, workspaceId, page)
  const place = (row: RepositoryRow) => ({ at: row.connected_at, id: String(row.id) })
  const { items, nextCursor } = toPage(found, page.limit, repositoryOf, place)
  return { repos: items, nextCursor }
}

/** Undefined: it is not connected. */
export const findRepository = (db: Db, place: Place): Promise<RepositoryRow | undefined> =>
  rows.findRepositoryRow(db, place)

export async function readRepository(db: Db, place: Place): Promise<RepositoryRow> {
  const row = await findRepository(db, place)
  if (!row) throw missing(place)
  return row
}

/** What they are called now, by their keys; also of those that were removed. */
export async function repositoryNames(
  db: Db,
  keys: readonly number[],
): Promise<Map<number, Omit<Place, 'workspaceId'>>> {
  const found = keys.length === 0 ? [] : await rows.listRepositoryNames(db, keys)
  return new Map(found.map(({ key, owner, name }) => [key, { owner, name }]))
}

/** Of whom it is, and what it is called now; also when it was removed. */
export async function readPlace(db: Db, key: number): Promise<Place> {
  const [row] = await rows.listRepositoryNames(db, [key])
  if (!row) throw new Error(`The repository ${key} is gone.`)
  return { workspaceId: row.workspace_id, owner: row.owner, name: row.name }
}

/**
 * Returns the visibility that the code host reports now, or for plain git the one that its owner has set. A repository
 * that turned private has its public release withdrawn.
 */
export async function refreshVisibility(tools: RepositoryTools, row: RepositoryRow & { workspaceId: string }) {
  if (row.source_kind === 'git') return row.visibility
  await rows.noteVisibilityCheck(tools.db, row.key)
  const { found } = await findHosted(tools, row, row.credential_id ?? undefined)
  if (found && found.id !== row.id)
    throw new Problem(repositoryNotFound, `Another repository is called ${nameOf(row)} now.`)
  // What even we may not see any more, everybody may not.
  const visibility = found?.visibility ?? 'private'
  await transact(tools.db, async (tx) => {
    if (visibility !== row.visibility) await rows.setVisibility(tx, row.key, visibility)
    if (visibility === 'private')
      await withdrawPrivate(tools, tx, { workspaceId: row.workspaceId, actor: 'system' }, row)
  })
  tools.forget()
  return visibility
}

const withdrawPrivate = (tools: RepositoryTools, tx: Db, by: By, { key }: RepositoryRow): Promise<void> =>
  tools.withdrawPublicRelease(tx, by, key, 'The repository is not public any more.')

type Connected = { kind: 'connected' | 'changed'; repository: Repository }

export async function connectRepository(
  tools: RepositoryTools,
  by: By,
  place: Omit<Place, 'workspaceId'>,
  wish: RepositoryWish,
): Promise<Connected> {
  const own = { ...place, workspaceId: by.workspaceId }
  const identity = await identityOf(tools, own, wish)
  const { row, isNew } = await save(tools, by, own, identity)
  return { kind: isNew ? 'connected' : 'changed', repository: repositoryOf(row) }
}

/** For the first write: what everybody can see need not be connected by hand. */
export async function requireRepository(tools: RepositoryTools, by: By, place: Place): Promise<RepositoryRow> {
  const known = await findRepository(tools.db, place)
  return known ?? (await save(tools, by, place, await publicIdentity(tools, place))).row
}

/** For who only looks before that first write: it is connected, or could be. Nothing is written down. */
export async function requireWritable(tools: RepositoryTools, place: Place): Promise<void> {
  if (!(await findRepository(tools.db, place))) await publicIdentity(tools, place)
}

async function publicIdentity(tools: RepositoryTools, place: Place): Promise<Identity> {
  const identity = await hostedIdentity(tools, place, undefined).catch((error: unknown) => {
    if (!(error instanceof Problem)) throw error
    throw error.kind.status < 500 ? missing(place) : notAsked(place, error)
  })
  if (identity.visibility !== 'public') throw missing(place)
  return identity
}

function save(tools: RepositoryTools, by: By, place: Place, identity: Identity) {
  return transact(tools.db, async (tx) => {
    await rows.lockRepositories(tx, by.workspaceId)
    const before = await rows.findRepositoryRow(tx, place)
    const id = identity.id ?? (await rows.findGitRow(tx, place))?.id ?? (await newGitId(tx))
    const isSame = before?.source_kind === identity.source_kind && before.host === identity.host && before.id === id
    // Another repository has taken this name.
    if (before && !isSame) await remove(tools, tx, before)
    const row = await rows.saveRepository(tx, { ...identity, id, workspace_id: by.workspaceId }).catch(credentialGone)
    await record(tx, { ...by, action: 'repository.connected', subject: nameOf(row), detail: { id: String(row.id) } })
    if (row.visibility === 'private') await withdrawPrivate(tools, tx, by, row)
    return { row, isNew: !isSame }
  }).finally(tools.forget)
}

/** From 2^40 on, above the ids of every code host. Random, so that nobody counts the repositories of other workspaces. */
async function newGitId(tx: Db): Promise<number> {
  const id = randomInt(2 ** 40, 2 ** 48)
  return (await rows.findGitId(tx, id)) === undefined ? id : newGitId(tx)
}

const FOREIGN_KEY = '23503'

/** Deleted since we looked. */
function credentialGone(error: unknown): never {
  if (errorCode(error) !== FOREIGN_KEY) throw error
  throw refusedField('/credentialId', 'The credential is not there any more.')
}

/** Disconnects a repository. `withdraw` decides what happens to its public release; without it that is a conflict. */
export function removeRepository(
  tools: RepositoryTools,
  by: By,
  place: Place,
  withdraw: boolean | undefined,
): Promise<void> {
  return transact(tools.db, async (tx) => {
    await rows.lockRepositories(tx, by.workspaceId)
    const row = await readRepository(tx, place)
    if (withdraw === undefined) await requireNothingPublic(tools, tx, row)
    if (withdraw) await tools.withdrawPublicRelease(tx, by, row.key, 'The repository was disconnected.')
    await remove(tools, tx, row)
    await record(tx, { ...by, action: 'repository.removed', subject: nameOf(row) })
  }).finally(tools.forget)
}

async function requireNothingPublic({ findPublicRelease }: RepositoryTools, tx: Db, row: RepositoryRow) {
  const releaseId = await findPublicRelease(tx, row.key)
  if (releaseId === undefined) return
  throw new Problem(releasesPublic, `A release of ${nameOf(row)} is public. ${HOW_TO_REMOVE}`, {
    members: { releaseId },
  })
}

const HOW_TO_REMOVE =
  'Remove the repository with withdraw=true to withdraw it, or with withdraw=false to keep it public.'

async function remove({ isBusy }: RepositoryTools, tx: Db, row: RepositoryRow): Promise<void> {
  if (await isBusy(tx, row.key)) throw new Problem(repositoryBusy, `Something runs on ${nameOf(row)}.`)
  await rows.removeRepositoryRow(tx, row.key)
}

const nameOf = ({ owner, name }: { owner: string; name: string }): string => `${owner}/${name}`

const missing = (place: Place): Problem =>
  new Problem(notFound, `The repository ${nameOf(place)} is not connected to this workspace. ${connectHint(place)}`)

/** The code host would know whether everybody can see it; plain git is not asked for there. */
const notAsked = (place: Place, { kind, message, extra }: Problem): Problem =>
  new Problem(
    kind,
    `The repository ${nameOf(place)} is not connected to this workspace, and GitHub could not be asked for it: ${message} ${connectHint(place)}`,
    extra,
  )

const connectHint = (place: Place): string =>
  `Connect it: assay repos connect ${nameOf(place)}, with --git <url> where it is not on GitHub.`

export const repositoryOf = (row: RepositoryRow): Repository => ({
  id: row.id,
  owner: row.owner,
  name: row.name,
  fullName: nameOf(row),
  source: row.url === null ? { kind: 'github' } : { kind: 'git', url: row.url },
  credentialId: row.credential_id,
  visibility: row.visibility,
  connectedAt: row.connected_at.toISOString(),
})

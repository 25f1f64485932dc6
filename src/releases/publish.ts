import { listTrialPrices } from '../comparisons/trials/prices.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import { type FieldError, Problem } from '../platform/problem.ts'
import { type RepositoryRow, type RepositoryTools, readRepository, refreshVisibility } from '../repos/repos.ts'
import { tell } from '../webhooks/tell.ts'
import { type By, record } from '../workspaces/audit.ts'
import type { Result } from './aggregate.ts'
import { disclosureOf } from './disclosure.ts'
import { type Content, contentOf, releaseOf } from './document.ts'
import { contentHash } from './fingerprint.ts'
import {
  blockersOf,
  fullNameOf,
  notAssigned,
  notPublic,
  type PreviewTools,
  type Publisher,
  previewRelease,
  readStanding,
  type Standing,
} from './preview.ts'
import { ownerNotAssigned, repositoryPrivate, settingsRefused, stalePreview } from './schema.ts'
import type { Release } from './shapes/schema.ts'
import { findNewest, insertRelease, lockReleases, type ReleaseRow, renameReleases } from './sql.ts'
import { publishFiles, requireClean, type TaskFiles } from './task-files.ts'

export type ReleaseTools = RepositoryTools &
  PreviewTools &
  TaskFiles & {
    /** Brings what everybody reads of a repository up to date, in the same transaction. */
    show: (tx: Db, place: { owner: string; name: string }) => Promise<void>
    /** Under which everybody reads. */
    publicUrl: () => string
  }

export type PublishWish = { settings: string[]; head: string | null; fingerprint: string; publishTasks: boolean }

export type Published = { kind: 'published' | 'unchanged'; row: ReleaseRow }
type Stale = { kind: 'stale'; detail: string }

/**
 * Publishes what somebody has seen in a preview. The order of the checks is the contract's: a lost answer can be asked
 * for again, and of several who publish at once one wins and the others see what it published.
 */
export async function publishRelease(
  tools: ReleaseTools,
  by: By,
  { repository, publisher }: { repository: RepositoryRow; publisher: Publisher },
  wish: PublishWish,
): Promise<Published> {
  const visibility = await refreshVisibility(tools, { ...repository, workspaceId: by.workspaceId })
  if (visibility !== 'public') throw new Problem(repositoryPrivate, notPublic(repository))
  // Files are looked through before anything is locked: it may take long, and what is clean stays clean.
  const clean = wish.publishTasks ? await cleanTasks(tools, repository, publisher, wish) : new Set<string>()
  const outcome = await transact(tools.db, async (tx) => {
    await lockReleases(tx, repository.key)
    const place = { workspaceId: by.workspaceId, owner: repository.owner, name: repository.name }
    const standing = await readStanding(tx, await readRepository(tx, place), publisher)
    return publishStanding({ ...tools, db: tx }, by, standing, { ...wish, clean })
  })
  if (outcome.kind !== 'stale') return outcome
  // Nobody has to wait until somebody else has seen why.
  const preview = await previewRelease(tools, await readStanding(tools.db, repository, publisher))
  throw new Problem(stalePreview, outcome.detail, { members: { preview } })
}

type Wish = PublishWish & { clean: ReadonlySet<string> }

async function publishStanding(
  tools: ReleaseTools,
  by: By,
  standing: Standing,
  wish: Wish,
): Promise<Published | Stale> {
  const { facts, head, repository } = standing
  if ((await blockersOf(tools, standing)).some(({ code }) => code === ownerNotAssigned.code))
    throw new Problem(ownerNotAssigned, notAssigned(repository.owner))
  if (facts.fingerprint !== wish.fingerprint) return stale('Results have changed since.')
  const chosen = facts.results.filter(({ id }) => wish.settings.includes(id))
  if (head && isWhole(chosen, wish) && head.content_hash === contentHash(chosen))
    return unchanged(tools, by, standing, head, wish)
  if ((head?.id ?? null) !== wish.head) return stale('Another release came before.')
  requirePublishable(facts.results, wish.settings)
  return insert(tools, by, standing, { ...wish, chosen })
}

const isWhole = (chosen: readonly Result[], { settings }: PublishWish): boolean => chosen.length === settings.length

/** The same again. Only files may be new. */
async function unchanged(
  tools: ReleaseTools,
  by: By,
  standing: Standing,
  head: ReleaseRow,
  wish: Wish,
): Promise<Published> {
  if (wish.publishTasks) {
    const chosen = standing.facts.results.filter(({ id }) => wish.settings.includes(id))
    if (await publishFiles(tools, standing, chosen, wish.clean)) {
      await record(tools.db, { ...by, action: 'release.tasks_published', subject: head.id })
      await tools.show(tools.db, head)
    }
  }
  return { kind: 'unchanged', row: head }
}

const stale = (detail: string): Stale => ({ kind: 'stale', detail })

function requirePublishable(results: readonly Result[], settings: readonly string[]): void {
  if (settings.length === 0) throw refused([errorAt('/settings', 'too_small', 'Choose at least one setting.')])
  const byId = new Map(results.map((result) => [result.id, result]))
  const errors = settings.flatMap((id, place) => {
    const found = byId.get(id)
    if (!found) return [errorAt(`/settings/${place}`, 'unknown_setting', `There is no setting ${id}.`)]
    if (found.reason === undefined) return []
    return [errorAt(`/settings/${place}`, found.reason, `${id} cannot be published: ${found.reason}.`)]
  })
  if (errors.length > 0) throw refused(errors)
}

const errorAt = (pointer: string, code: string, message: string): FieldError => ({ pointer, code, message })
const refused = (errors: FieldError[]): Problem => new Problem(settingsRefused, errors[0]?.message ?? '', { errors })

async function insert(
  tools: ReleaseTools,
  by: By,
  standing: Standing,
  { chosen, publishTasks, clean }: Wish & { chosen: Result[] },
): Promise<Published> {
  const { repository, facts } = standing
  const tx = tools.db
  const newest = await findNewest(tx, repository.key)
  const releasedAt = new Date(Math.max(Date.now(), (newest?.released_at.getTime() ?? 0) + 1))
  const content = contentOf(chosen)
  const prices = await pricesOf(tx, by.workspaceId, chosen)
  const release = releaseFor(standing, chosen, { content, releasedAt, prices })
  const identity = {
    ...{ source_kind: repository.source_kind, host: repository.host, repository_id: repository.id },
    ...{ owner: repository.owner, name: repository.name },
  }
  await insertRelease(tx, {
    ...{ id: release.releaseId, workspace_id: by.workspaceId, repository: repository.key },
    sequence: (newest?.sequence ?? 0) + 1,
    ...identity,
    ...{ released_at: releasedAt, fingerprint: facts.fingerprint, content_hash: content.hash },
    ...{ picks: content.picks, document: JSON.stringify(release) },
  })
  if (publishTasks) await publishFiles(tools, standing, chosen, clean)
  const older = await renameReleases(tx, identity)
  await record(tx, {
    ...by,
    action: 'release.published',
    subject: release.releaseId,
    detail: { repository: fullNameOf(repository) },
  })
  const told = { repository: fullNameOf(repository), releaseId: release.releaseId }
  await tell(tx, by.workspaceId, { type: 'release.published', data: told })
  // Audit first, then names in their order: so does everybody, and nobody waits for one who waits for him.
  for (const place of sortedPlaces([...older, repository])) await tools.show(tx, place)
  const row = await findNewest(tx, repository.key)
  if (!row) throw new Error('A release that was just made is gone.')
  return { kind: 'published', row }
}

const sortedPlaces = <P extends { owner: string; name: string }>(places: P[]): P[] =>
  places.sort((a, b) => (fullNameOf(a).toLowerCase() < fullNameOf(b).toLowerCase() ? -1 : 1))

/** As they stood in the grants of the trials that count. */
async function pricesOf(db: Db, workspaceId: string, chosen: Result[]): Promise<Release['prices']> {
  const trials = chosen.flatMap(({ cells }) => cells.map(({ trial }) => trial))
  const frozen = await listTrialPrices(db, workspaceId, trials)
  const models = [...new Set(chosen.map(({ model }) => model.catalogId))].sort()
  const last = frozen.map(({ to }) => to.getTime()).reduce((a, b) => Math.max(a, b), 0)
  return {
    at: last === 0 ? null : new Date(last).toISOString(),
    models: models.flatMap((catalogId): Release['prices']['models'] => {
      const own = frozen.filter((each) => each.catalogId === catalogId)
      if (own.length === 0) return [{ catalogId, prices: null, from: null, to: null }]
      return own.map(({ prices, from, to }) => ({
        ...{ catalogId, prices, from: from.toISOString(), to: to.toISOString() },
      }))
    }),
  }
}

function releaseFor(
  { repository, publisher, facts }: Standing,
  chosen: Result[],
  { content, releasedAt, prices }: { content: Content; releasedAt: Date; prices: Release['prices'] },
): Release {
  const label = {
    ...{ releaseId: newId(), releasedAt: releasedAt.toISOString() },
    repository: { id: repository.id, fullName: fullNameOf(repository) },
    publisher: { login: publisher.login, kind: publisher.kind },
  }
  const approved = facts.tasks.map(({ digest }) => digest)
  return releaseOf(label, content, {
    disclosure: disclosureOf(facts.results, chosen, approved, facts.run),
    prices,
  })
}

/** Only of what would be published: another's secret must not be told by a refusal. */
async function cleanTasks(
  tools: ReleaseTools,
  repository: RepositoryRow,
  publisher: Publisher,
  wish: PublishWish,
): Promise<ReadonlySet<string>> {
  const { facts } = await readStanding(tools.db, repository, publisher)
  if (facts.fingerprint !== wish.fingerprint) return new Set()
  const chosen = facts.results.filter(({ id }) => wish.settings.includes(id))
  return requireClean(tools, facts.tasks, chosen)
}

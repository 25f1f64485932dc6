import { listTaskPaths } from '../batches/tasks.ts'
import { listTrialPrices } from '../comparisons/trials/spend.ts'
import { findSourceLanguage } from '../grading/languages/languages.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { newId } from '../platform/ids.ts'
import { type FieldError, Problem } from '../platform/problem.ts'
import { type RepositoryDeps, type RepositoryRow, readRepository, refreshVisibility } from '../repos/repos.ts'
import { emitEvent } from '../webhooks/emit.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import type { SettingResult, UnpublishableReason } from './aggregate.ts'
import { buildContent, buildDisclosure, buildRelease, type ReleaseContent } from './document.ts'
import { computeContentHash } from './fingerprint.ts'
import {
  explainNameTaken,
  explainNotAssigned,
  explainNotPublic,
  fullNameOf,
  listBlockers,
  loadReleaseContext,
  type Publisher,
  previewRelease,
  type ReleaseContext,
  type ReleasePreviewDeps,
  selectResults,
  toReleaseIdentity,
} from './preview.ts'
import { nameTaken, ownerNotAssigned, repositoryPrivate, settingsRefused, stalePreview } from './schema.ts'
import type { Release } from './shapes/schema.ts'
import { findNewest, insertRelease, isNameTaken, lockReleases, type ReleaseRow, renameReleases } from './sql.ts'
import { type PublishTasksDeps, publishFiles, requireNoSecrets } from './task-files.ts'

export type ReleaseDeps = RepositoryDeps &
  ReleasePreviewDeps &
  PublishTasksDeps & {
    /** Updates the public results of a repository in the same transaction. */
    updateResults: (tx: Db, repository: { owner: string; name: string }) => Promise<void>
    /** Base URL of the public API. */
    publicUrl: () => string
  }

type PublishInput = { settings: string[]; head: string | null; fingerprint: string; publishTasks: boolean }

type PublishResult = { kind: 'published' | 'unchanged'; row: ReleaseRow }
type StaleResult = { kind: 'stale'; detail: string }

/**
 * Publishes what a preview showed. The order of the checks is part of the contract: a lost response can be requested
 * again, and of concurrent publishers one wins and the others see what it published.
 */
export async function publishRelease(
  deps: ReleaseDeps,
  by: AuditActor,
  { repository, publisher }: { repository: RepositoryRow; publisher: Publisher },
  input: PublishInput,
): Promise<PublishResult> {
  const visibility = await refreshVisibility(deps, { ...repository, workspaceId: by.workspaceId })
  if (visibility !== 'public') throw new Problem(repositoryPrivate, explainNotPublic(repository))
  // Files are scanned before anything is locked: it may take long, and content is immutable.
  const cleanDigests = input.publishTasks ? await scanTasks(deps, repository, publisher, input) : new Set<string>()
  const outcome = await transact(deps.db, async (tx) => {
    await lockReleases(tx, repository.key)
    const ref = { workspaceId: by.workspaceId, owner: repository.owner, name: repository.name }
    const context = await loadReleaseContext(tx, await readRepository(tx, ref), publisher)
    return publishLocked({ ...deps, db: tx }, by, context, { ...input, cleanDigests })
  })
  if (outcome.kind !== 'stale') return outcome
  // The preview is built outside the transaction: other publishers must not wait for it.
  const preview = await previewRelease(deps, await loadReleaseContext(deps.db, repository, publisher))
  throw new Problem(stalePreview, outcome.detail, { members: { preview } })
}

/** Builds the release that publishing these settings would store, dated today. Stores nothing. */
export async function buildPreviewRelease(
  db: Db,
  context: ReleaseContext,
  settingIds: readonly string[] | undefined,
): Promise<{ release: Release; picks: ReleaseContent['picks'] }> {
  const chosen = selectResults(context.facts.results, settingIds)
  const content = buildContent(chosen)
  const prices = await loadPrices(db, context.publisher.id, chosen)
  const releasedAt = new Date(new Date().setUTCHours(0, 0, 0, 0))
  const release = buildDocument(context, chosen, { releaseId: 'preview', content, releasedAt, prices })
  return { release, picks: content.picks }
}

type ScannedPublishInput = PublishInput & { cleanDigests: ReadonlySet<string> }

async function publishLocked(
  deps: ReleaseDeps,
  by: AuditActor,
  context: ReleaseContext,
  input: ScannedPublishInput,
): Promise<PublishResult | StaleResult> {
  const { facts, head, repository } = context
  const blockers = new Set((await listBlockers(deps, context)).map(({ code }) => code))
  if (blockers.has(ownerNotAssigned.code)) throw new Problem(ownerNotAssigned, explainNotAssigned(repository.owner))
  if (blockers.has(nameTaken.code)) throw new Problem(nameTaken, explainNameTaken(repository))
  if (facts.fingerprint !== input.fingerprint) return toStale('Results have changed since the preview.')
  const chosen = facts.results.filter(({ id }) => input.settings.includes(id))
  if (head && chosen.length === input.settings.length && head.content_hash === computeContentHash(chosen))
    return keepHead(deps, by, context, head, input)
  if ((head?.id ?? null) !== input.head) return toStale('Another release was published since the preview.')
  requirePublishable(facts.results, input.settings)
  return storeRelease(deps, by, context, { ...input, chosen })
}

/** Keeps the head, because the content is unchanged. Only task files may be published in addition. */
async function keepHead(
  deps: ReleaseDeps,
  by: AuditActor,
  context: ReleaseContext,
  head: ReleaseRow,
  input: ScannedPublishInput,
): Promise<PublishResult> {
  if (input.publishTasks) {
    const chosen = context.facts.results.filter(({ id }) => input.settings.includes(id))
    if (await publishFiles(deps, context, chosen, input.cleanDigests)) {
      await record(deps.db, { ...by, action: 'release.tasks_published', subject: head.id })
      await deps.updateResults(deps.db, head)
    }
  }
  return { kind: 'unchanged', row: head }
}

const toStale = (detail: string): StaleResult => ({ kind: 'stale', detail })

function requirePublishable(results: readonly SettingResult[], settings: readonly string[]): void {
  if (settings.length === 0) throw toRefusal([toFieldError('/settings', 'too_small', 'Choose at least one setting.')])
  const byId = new Map(results.map((result) => [result.id, result]))
  const errors = settings.flatMap((id, index) => {
    const result = byId.get(id)
    if (!result) return [toFieldError(`/settings/${index}`, 'unknown_setting', `Unknown setting ${id}`)]
    if (result.reason === undefined) return []
    const message = `${id} cannot be published: ${REASON_TEXTS[result.reason]} (${result.reason}).`
    return [toFieldError(`/settings/${index}`, result.reason, message)]
  })
  if (errors.length > 0) throw toRefusal(errors)
}

const REASON_TEXTS: Record<UnpublishableReason, string> = {
  reference: 'it is a reference setting, which calls no model',
  no_results: 'it has no results on approved tasks',
  cost_unknown: 'the cost of a result is unknown',
}

const toFieldError = (pointer: string, code: string, message: string): FieldError => ({ pointer, code, message })
const toRefusal = (errors: FieldError[]): Problem => new Problem(settingsRefused, errors[0]?.message ?? '', { errors })

async function storeRelease(
  deps: ReleaseDeps,
  by: AuditActor,
  context: ReleaseContext,
  { chosen, publishTasks, cleanDigests }: ScannedPublishInput & { chosen: SettingResult[] },
): Promise<PublishResult> {
  const { repository, facts } = context
  const tx = deps.db
  const newest = await findNewest(tx, repository.key)
  const releasedAt = new Date(Math.max(Date.now(), (newest?.released_at.getTime() ?? 0) + 1))
  const content = buildContent(chosen)
  const prices = await loadPrices(tx, by.workspaceId, chosen)
  const release = buildDocument(context, chosen, { releaseId: newId(), content, releasedAt, prices })
  const identity = toReleaseIdentity(repository)
  await insertRelease(tx, {
    id: release.releaseId,
    workspace_id: by.workspaceId,
    repository: repository.key,
    sequence: (newest?.sequence ?? 0) + 1,
    ...identity,
    released_at: releasedAt,
    fingerprint: facts.fingerprint,
    content_hash: content.hash,
    picks: content.picks,
    document: JSON.stringify(release),
    language: detectLanguage(await listTaskPaths(tx, repository.key, content.tasks)),
  })
  if (publishTasks) await publishFiles(deps, context, chosen, cleanDigests)
  const older = await renameReleases(tx, identity)
  await record(tx, {
    ...by,
    action: 'release.published',
    subject: release.releaseId,
    detail: { repository: fullNameOf(repository) },
  })
  const data = { repository: fullNameOf(repository), releaseId: release.releaseId }
  await emitEvent(tx, by.workspaceId, { type: 'release.published', data })
  // Lock order, to prevent deadlocks: the audit log, then repository names in sorted order.
  for (const name of sortByName([...older, repository])) await deps.updateResults(tx, name)
  // The name is checked again, because only now it is locked, by updateResults.
  if (await isNameTaken(tx, identity)) throw new Problem(nameTaken, explainNameTaken(repository))
  const row = await findNewest(tx, repository.key)
  if (!row) throw new Error('Inserted release not found')
  return { kind: 'published', row }
}

const sortByName = <P extends { owner: string; name: string }>(repositories: P[]): P[] =>
  repositories.sort((a, b) => (fullNameOf(a).toLowerCase() < fullNameOf(b).toLowerCase() ? -1 : 1))

/** Loads the prices that the grants of the canonical trials froze. */
async function loadPrices(db: Db, workspaceId: string, chosen: SettingResult[]): Promise<Release['prices']> {
  const trials = chosen.flatMap(({ cells }) => cells.map(({ trial }) => trial))
  const frozen = await listTrialPrices(db, workspaceId, trials)
  const models = [...new Set(chosen.map(({ model }) => model.catalogId))].sort()
  const newestTime = frozen.map(({ to }) => to.getTime()).reduce((a, b) => Math.max(a, b), 0)
  return {
    at: newestTime === 0 ? null : new Date(newestTime).toISOString(),
    models: models.flatMap((catalogId): Release['prices']['models'] => {
      const modelPrices = frozen.filter((each) => each.catalogId === catalogId)
      if (modelPrices.length === 0) return [{ catalogId, prices: null, from: null, to: null }]
      return modelPrices.map(({ prices, from, to }) => ({
        catalogId,
        prices,
        from: from.toISOString(),
        to: to.toISOString(),
      }))
    }),
  }
}

type DocumentParts = { releaseId: string; content: ReleaseContent; releasedAt: Date; prices: Release['prices'] }

function buildDocument(
  { repository, publisher, facts }: ReleaseContext,
  chosen: SettingResult[],
  { releaseId, content, releasedAt, prices }: DocumentParts,
): Release {
  const label = {
    releaseId,
    releasedAt: releasedAt.toISOString(),
    repository: { id: repository.id, fullName: fullNameOf(repository) },
    publisher: { login: publisher.login, kind: publisher.kind },
  }
  const approved = facts.tasks.map(({ digest }) => digest)
  return buildRelease(label, content, {
    disclosure: buildDisclosure(facts.results, chosen, approved, facts.run),
    prices,
  })
}

/** Scans only the tasks that would be published, so that an error does not reveal secrets of others. */
async function scanTasks(
  deps: ReleaseDeps,
  repository: RepositoryRow,
  publisher: Publisher,
  input: PublishInput,
): Promise<ReadonlySet<string>> {
  const { facts } = await loadReleaseContext(deps.db, repository, publisher)
  if (facts.fingerprint !== input.fingerprint) return new Set()
  const chosen = facts.results.filter(({ id }) => input.settings.includes(id))
  return requireNoSecrets(deps, facts.tasks, chosen)
}

/** Folder of the hidden tests in generated tasks. Other files of their verifier are the same in every language. */
const HIDDEN_TESTS = /^tests\/grader\/hidden\//
/**
 * Folders of a task in the order in which they show its language best. Tests of hand-written tasks are often in
 * Python.
 */
const LANGUAGE_FOLDERS = [HIDDEN_TESTS, /^(environment|solution|steps)\//, /^tests\//]
/** Scripts and queries that tasks in every language contain. */
const ACCOMPANYING_LANGUAGES = new Set(['shell', 'sql'])

/** Returns the language of most tasks, each given by the paths of its files. Null if no task shows one. */
export const detectLanguage = (tasks: readonly (readonly string[])[]): string | null =>
  findMostFrequent(tasks.flatMap((paths) => detectTaskLanguage(paths) ?? []))

function detectTaskLanguage(paths: readonly string[]): string | null {
  for (const folder of LANGUAGE_FOLDERS) {
    const names = paths.filter((path) => folder.test(path)).flatMap((path) => findSourceLanguage(path)?.name ?? [])
    const language = findMostFrequent(names.filter((name) => !ACCOMPANYING_LANGUAGES.has(name)))
    if (language !== null) return language
  }
  return null
}

/** Returns the most frequent name. Ties are resolved by name. */
function findMostFrequent(names: readonly string[]): string | null {
  const groups = Map.groupBy(names, (name) => name)
  const counts = [...groups].map(([name, occurrences]) => ({ name, count: occurrences.length }))
  const [first] = counts.sort((a, b) => b.count - a.count || (a.name < b.name ? -1 : 1))
  return first?.name ?? null
}

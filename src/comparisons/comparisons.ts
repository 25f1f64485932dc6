import { createHash } from 'node:crypto'
import { findModel } from '../catalog/models.ts'
import type { Tools as CredentialTools } from '../credentials/credentials.ts'
import { setSharedBudget } from '../gateway/spend/spend.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { repositoryNames } from '../repos/repos.ts'
import { type By, record } from '../workspaces/audit.ts'
import { requireCredentials, requireSize, settingsOf } from './choices.ts'
import { quoteOf } from './quote.ts'
import { idReused } from './schema.ts'
import {
  type Comparison,
  type NewComparison,
  Pause,
  type Quote,
  type QuoteRequest,
  SubmissionError,
  type TaskChoice,
} from './shapes/schema.ts'
import { connectedScope, readSource, type ScopeTools } from './source.ts'
import * as rows from './sql.ts'
import { type Facts, type SettingFacts, statusOf } from './status.ts'
import { enqueueSubmission } from './submit.ts'
import { sharedBudgetOf } from './trials/spend.ts'
import { usageOf } from './trials/trials.ts'

export type Scope = rows.Scope
/** As a request names it. What it names may be a repository that is not connected yet. */
export type ScopeName = { kind: Scope['kind']; owner: string; name: string }
type Wish = NewComparison & { tasks?: TaskChoice[] }

/** The client picks the id and sends it again when it asks again: the same request twice is one comparison. */
export async function createComparison(tools: ScopeTools, by: By, named: ScopeName, wish: Wish): Promise<Comparison> {
  const hash = requestHash(named, await withLevels(tools.db, by.workspaceId, wish))
  const find = (db: Db) => rows.findComparisonRow(db, by.workspaceId, wish.id)
  const known = await find(tools.db)
  if (known) return readAgain(tools.db, known, hash)
  // Before the transaction: it may take a look at the code host.
  const scope = await connectedScope(tools, by, named)
  return transact(tools.db, async (tx) => {
    await rows.lockId(tx, by.workspaceId, wish.id)
    const before = await find(tx)
    if (before) return readAgain(tx, before, hash)
    await insert({ ...tools, db: tx }, by, scope, { wish, hash })
    return readStatus(tx, await find(tx))
  })
}

async function readAgain(db: Db, row: rows.ComparisonRow, hash: Buffer): Promise<Comparison> {
  if (row.request_hash.equals(hash)) return readStatus(db, row)
  throw new Problem(idReused, `The comparison ${row.id} was asked for with another request.`)
}

type Asked = { wish: Wish; hash: Buffer }

async function insert(tools: CredentialTools, by: By, scope: Scope, { wish, hash }: Asked): Promise<void> {
  const tx = tools.db
  const source = await readSource(tx, by.workspaceId, scope, wish.tasks)
  const settings = await settingsOf(tx, by.workspaceId, wish.models)
  await requireCredentials(tools, by.workspaceId, wish)
  requireSize(source.tasks, settings.length, wish.attempts)
  const { key } = await rows.insertComparison(tx, {
    ...{ workspace_id: by.workspaceId, id: wish.id, request_hash: hash },
    ...{ scope_kind: scope.kind, scope_owner: scope.owner, scope_name: scope.name, repository: scope.repository },
    ...{ sandbox: wish.sandbox, sandbox_credential_id: wish.sandboxCredentialId },
    ...{ skip_completed: wish.skipCompleted, attempts: wish.attempts, concurrency: wish.concurrency ?? null },
    settings: settings.length,
    ...{ budget_micros: micros(wish.budgetUsd), trial_budget_micros: micros(wish.trialBudgetUsd) },
    source: JSON.stringify(source.resolved),
  })
  await setSharedBudget(tx, {
    ...{ id: sharedBudgetOf(key), workspaceId: by.workspaceId, budgetMicros: micros(wish.budgetUsd) },
  })
  await rows.insertSettings(tx, key, settings)
  await rows.holdCredentials(tx, key)
  await enqueueSubmission(tx, key)
  await record(tx, { ...by, action: 'comparison.created', subject: wish.id })
}

export const micros = (usd: number | undefined): number | null => (usd === undefined ? null : Math.round(usd * 1e6))

/** With all defaults filled in, so that leaving one out and naming it are the same request. */
async function withLevels(db: Db, workspaceId: string, wish: Wish): Promise<Wish> {
  const models = wish.models.map(async (choice) => {
    if (choice.reasoningLevel !== undefined) return choice
    const model = await findModel(db, workspaceId, choice.catalogId, { alsoRemoved: true })
    return model ? { ...choice, reasoningLevel: model.defaultLevel } : choice
  })
  return { ...wish, models: await Promise.all(models) }
}

function requestHash(named: ScopeName, { models, ...wish }: Wish): Buffer {
  const { sandbox, sandboxCredentialId, skipCompleted, attempts, budgetUsd, trialBudgetUsd, concurrency } = wish
  const facts = [
    placeOf(named),
    models.map(({ catalogId, credentialId, harnesses, reasoningLevel }) => [
      ...[catalogId, credentialId, harnesses, reasoningLevel ?? null],
    ]),
    [sandbox, sandboxCredentialId, skipCompleted, attempts, budgetUsd ?? null, trialBudgetUsd ?? null],
    concurrency ?? null,
    ...(wish.tasks ? [wish.tasks.map(({ runId, taskId }) => [runId, taskId])] : []),
  ]
  return createHash('sha256').update(JSON.stringify(facts)).digest()
}

/** Names of repositories are compared without case. */
const placeOf = ({ kind, owner, name }: ScopeName): string[] =>
  kind === 'repository' ? [kind, owner.toLowerCase(), name.toLowerCase()] : [kind, owner, name]

/** By the address: in another scope there is no such comparison. */
export async function readRow(db: Db, workspaceId: string, scope: Scope, id: string): Promise<rows.ComparisonRow> {
  const row = await rows.findComparisonRow(db, workspaceId, id.toLowerCase())
  if (!row || !rows.isInScope(row, scope)) throw new Problem(notFound, `There is no comparison ${id} here.`)
  return row
}

export async function readStatus(db: Db, row: rows.ComparisonRow | undefined): Promise<Comparison> {
  const [status] = row ? await statusesOf(db, [row]) : []
  if (!status) throw new Problem(notFound, 'There is no such comparison.')
  return status
}

/** As it is by now. */
export const readNow = async (db: Db, { key }: rows.ComparisonRow): Promise<Comparison> =>
  readStatus(db, await rows.findByKey(db, key))

const LIST_MAX = 1000
const PAGE = 50

type Listing = { limit?: number | undefined; cursor?: Page['cursor'] }

export async function listComparisons(db: Db, workspaceId: string, scope: Scope, { limit, cursor }: Listing) {
  const page = { limit: limit ?? (cursor ? PAGE : LIST_MAX), cursor }
  const found = await rows.listComparisonRows(db, workspaceId, scope, page)
  if (found.length === 0) await requireScope(db, workspaceId, scope)
  const { items, nextCursor } = toPage(
    found,
    page.limit,
    (row) => row,
    (row) => ({ at: row.created_at, id: row.id }),
  )
  return { evaluations: await statusesOf(db, items), nextCursor }
}

/** A benchmark that was removed is still there for those who compared on it. A repository was found to be a scope. */
export async function requireScope(db: Db, workspaceId: string, scope: Scope): Promise<void> {
  if (scope.kind === 'repository' || (await rows.hasComparisons(db, workspaceId, scope))) return
  await readSource(db, workspaceId, scope)
}

export const hasOpenComparisons = (db: Db, repository: number) => rows.hasOpenComparisons(db, repository)

/** As many queries for many as for one. */
async function statusesOf(db: Db, found: rows.ComparisonRow[]): Promise<Comparison[]> {
  const keys = found.map(({ key }) => key)
  const settings = Map.groupBy(await rows.listCountedSettings(db, keys), ({ comparison }) => comparison)
  const names = await repositoryNames(
    db,
    found.flatMap(({ repository }) => repository ?? []),
  )
  const now = new Date()
  return found.map((row) => {
    const own = settings.get(row.key) ?? []
    return statusOf(
      factsOf(row, scopeOf(row, names)),
      own.map((setting) => ({ facts: settingFactsOf(setting), counts: setting.counts, live: setting.live })),
      now,
    )
  })
}

const factsOf = (row: rows.ComparisonRow, scope: Facts['scope']): Facts => ({
  id: row.id,
  scope,
  state: row.state,
  sandbox: row.sandbox,
  skipCompleted: row.skip_completed,
  attempts: row.attempts,
  concurrency: row.concurrency,
  frozen: row.frozen_digest === null ? null : { digest: row.frozen_digest, tasks: row.tasks ?? 0 },
  submissionError: SubmissionError.nullable().parse(row.submission_error),
  pause: Pause.nullable().parse(row.pause),
  createdAt: row.created_at,
  submittedAt: row.submitted_at,
  startedAt: row.started_at,
  finishedAt: row.finished_at,
  budgetMicros: row.budget_micros,
  trialBudgetMicros: row.trial_budget_micros,
})

type RepositoryNames = Awaited<ReturnType<typeof repositoryNames>>

function scopeOf(row: rows.ComparisonRow, names: RepositoryNames): Facts['scope'] {
  const { scope_kind: kind, scope_owner: owner, scope_name: name, repository } = row
  if (kind === 'benchmark') return { kind, datasetOrg: owner, dataset: name }
  return { kind, owner, name, ...names.get(repository ?? 0) }
}

type SettingRow = Awaited<ReturnType<typeof rows.listSettingRows>>[number]

const settingFactsOf = (row: SettingRow): SettingFacts => ({
  id: row.id,
  model: { catalogId: row.catalog_id, name: row.name, label: row.label },
  harness: row.harness,
  harnessVersion: row.harness_version,
  reasoningLevel: row.reasoning_level,
  provider: row.provider,
  custom: row.custom,
  isolation: row.isolation,
})

type Question = QuoteRequest & { tasks?: TaskChoice[] }

/** Without starting anything. */
export async function quoteComparison(db: Db, workspaceId: string, scope: Scope, wish: Question): Promise<Quote> {
  const source = await readSource(db, workspaceId, scope, wish.tasks)
  const settings = await settingsOf(db, workspaceId, wish.models)
  requireSize(source.tasks, settings.length, wish.attempts)
  const used = await usageOf(db, workspaceId, settings)
  return quoteOf({ tasks: source.tasks, settings: settings.length, attempts: wish.attempts }, used)
}

/** Whether something that is not over yet works with a model. */
export const isModelInUse = (db: Db, workspaceId: string, catalogId: string): Promise<boolean> =>
  rows.hasOpenSettings(db, workspaceId, { catalog_id: catalogId })

export const isHarnessInUse = (db: Db, workspaceId: string, harness: string): Promise<boolean> =>
  rows.hasOpenSettings(db, workspaceId, { harness })

import { createHash } from 'node:crypto'
import { z } from 'zod'
import { findForFreezing } from '../benchmarks/freeze.ts'
import { findModel } from '../catalog/models.ts'
import type { Tools as CredentialTools } from '../credentials/credentials.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, paged } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type By, record } from '../workspaces/audit.ts'
import { requireCredentials, requireSize, settingsOf } from './choices.ts'
import { quoteOf } from './quote.ts'
import { benchmarkNotAdded, idReused } from './schema.ts'
import type { Comparison, NewComparison, Pause, Quote, QuoteRequest, SubmissionError } from './shapes/schema.ts'
import * as rows from './sql.ts'
import { type Facts, type SettingFacts, statusOf } from './status.ts'
import { enqueueSubmission } from './submit.ts'
import { usageOf } from './trials/trials.ts'

export type Scope = rows.ScopePlace

/** The client picks the id and sends it again when it asks again: the same request twice is one comparison. */
export function createComparison(
  tools: CredentialTools,
  by: By,
  scope: Scope,
  wish: NewComparison,
): Promise<Comparison> {
  const hash = requestHash(scope, wish)
  return transact(tools.db, async (tx) => {
    await rows.lockId(tx, by.workspaceId, wish.id)
    const before = await rows.findComparisonRow(tx, by.workspaceId, wish.id)
    if (before && !before.request_hash.equals(hash))
      throw new Problem(idReused, `The comparison ${wish.id} was asked for with another request.`)
    if (!before) await insert({ ...tools, db: tx }, by, scope, { wish, hash })
    return readStatus(tx, before ?? (await rows.findComparisonRow(tx, by.workspaceId, wish.id)))
  })
}

type Asked = { wish: NewComparison; hash: Buffer }

async function insert(tools: CredentialTools, by: By, scope: Scope, { wish, hash }: Asked): Promise<void> {
  const tx = tools.db
  const source = await readSource(tx, by.workspaceId, scope)
  const settings = settingsOf(wish.models)
  await requireCredentials(tools, by.workspaceId, wish)
  requireSize(source.tasks, settings.length, wish.attempts)
  const { key } = await rows.insertComparison(tx, {
    ...{ workspace_id: by.workspaceId, id: wish.id, request_hash: hash },
    ...{ scope_kind: scope.kind, scope_owner: scope.owner, scope_name: scope.name },
    ...{ sandbox: wish.sandbox, sandbox_credential_id: wish.sandboxCredentialId },
    ...{ skip_completed: wish.skipCompleted, attempts: wish.attempts, concurrency: wish.concurrency ?? null },
    settings: settings.length,
    ...{ budget_micros: micros(wish.budgetUsd), trial_budget_micros: micros(wish.trialBudgetUsd) },
    source: JSON.stringify(source.resolved),
  })
  await rows.insertSettings(tx, key, settings)
  await rows.holdCredentials(tx, key)
  await enqueueSubmission(tx, key)
  await record(tx, { ...by, action: 'comparison.created', subject: wish.id })
}

async function readSource(db: Db, workspaceId: string, { owner, name }: Scope) {
  const source = await findForFreezing(db, { workspaceId, datasetOrg: owner, dataset: name })
  if (source) return source
  throw new Problem(benchmarkNotAdded, `The benchmark ${owner}/${name} is not in this workspace. Add it first.`)
}

export const micros = (usd: number | undefined): number | null => (usd === undefined ? null : Math.round(usd * 1e6))

/** With all defaults filled in, so that leaving one out and naming it are the same request. */
function requestHash(scope: Scope, wish: NewComparison): Buffer {
  const models = wish.models.map((choice) => ({
    ...choice,
    reasoningLevel: choice.reasoningLevel ?? findModel(choice.catalogId)?.defaultReasoningLevel ?? null,
  }))
  const { sandbox, sandboxCredentialId, skipCompleted, attempts, budgetUsd, trialBudgetUsd, concurrency } = wish
  const facts = [
    [scope.kind, scope.owner, scope.name],
    models.map(({ catalogId, credentialId, harnesses, reasoningLevel }) => [
      ...[catalogId, credentialId, harnesses, reasoningLevel],
    ]),
    [sandbox, sandboxCredentialId, skipCompleted, attempts, budgetUsd ?? null, trialBudgetUsd ?? null],
    concurrency ?? null,
  ]
  return createHash('sha256').update(JSON.stringify(facts)).digest()
}

/** By the address: in another scope there is no such comparison. */
export async function readRow(db: Db, workspaceId: string, scope: Scope, id: string): Promise<rows.ComparisonRow> {
  const row = await rows.findComparisonRow(db, workspaceId, id.toLowerCase())
  const isHere = row?.scope_kind === scope.kind && row.scope_owner === scope.owner && row.scope_name === scope.name
  if (!isHere) throw new Problem(notFound, `There is no comparison ${id} here.`)
  return row
}

export async function readStatus(db: Db, row: rows.ComparisonRow | undefined): Promise<Comparison> {
  const [status] = row ? await statusesOf(db, [row]) : []
  if (!status) throw new Problem(notFound, 'There is no such comparison.')
  return status
}

const LIST_MAX = 1000
const PAGE = 50

type Listing = { limit?: number | undefined; cursor?: Page['cursor'] }

export async function listComparisons(db: Db, workspaceId: string, scope: Scope, { limit, cursor }: Listing) {
  const page = { limit: limit ?? (cursor ? PAGE : LIST_MAX), cursor }
  const found = await rows.listComparisonRows(db, workspaceId, scope, page)
  if (found.length === 0) await requireScope(db, workspaceId, scope)
  const { items, nextCursor } = paged(
    found,
    page.limit,
    (row) => row,
    (row) => ({ at: row.created_at, id: row.id }),
  )
  return { evaluations: await statusesOf(db, items), nextCursor }
}

/** A benchmark that was removed is still there for those who compared on it. */
export async function requireScope(db: Db, workspaceId: string, scope: Scope): Promise<void> {
  if (!(await rows.hasComparisons(db, workspaceId, scope))) await readSource(db, workspaceId, scope)
}

/** As many queries for many as for one. */
async function statusesOf(db: Db, found: rows.ComparisonRow[]): Promise<Comparison[]> {
  const keys = found.map(({ key }) => key)
  const settings = Map.groupBy(await rows.listCountedSettings(db, keys), ({ comparison }) => comparison)
  const now = new Date()
  return found.map((row) => {
    const own = settings.get(row.key) ?? []
    return statusOf(
      factsOf(row),
      own.map((setting) => ({ facts: settingFactsOf(setting), counts: setting.counts })),
      now,
    )
  })
}

const Stored = z.custom<SubmissionError>()
const StoredPause = z.custom<Pause>()

const factsOf = (row: rows.ComparisonRow): Facts => ({
  id: row.id,
  scope: scopeOf(row),
  state: row.state,
  sandbox: row.sandbox,
  skipCompleted: row.skip_completed,
  attempts: row.attempts,
  concurrency: row.concurrency,
  frozen: row.frozen_digest === null ? null : { digest: row.frozen_digest, tasks: row.tasks ?? 0 },
  submissionError: row.submission_error === null ? null : Stored.parse(row.submission_error),
  pause: row.pause === null ? null : StoredPause.parse(row.pause),
  createdAt: row.created_at,
  submittedAt: row.submitted_at,
  startedAt: row.started_at,
  finishedAt: row.finished_at,
  budgetMicros: row.budget_micros,
  trialBudgetMicros: row.trial_budget_micros,
})

const scopeOf = ({ scope_kind: kind, scope_owner: owner, scope_name: name }: rows.ComparisonRow): Facts['scope'] =>
  kind === 'benchmark' ? { kind, datasetOrg: owner, dataset: name } : { kind, owner, name }

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

/** Without starting anything. */
export async function quoteComparison(db: Db, workspaceId: string, scope: Scope, wish: QuoteRequest): Promise<Quote> {
  const source = await readSource(db, workspaceId, scope)
  const settings = settingsOf(wish.models)
  requireSize(source.tasks, settings.length, wish.attempts)
  const used = await usageOf(db, workspaceId, settings)
  return quoteOf({ tasks: source.tasks, settings: settings.length, attempts: wish.attempts }, used)
}

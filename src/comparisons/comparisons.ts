import { createHash } from 'node:crypto'
import { findModel } from '../catalog/models.ts'
import type { CredentialDeps } from '../credentials/credentials.ts'
import { setSharedBudget } from '../gateway/spend/spend.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { type Page, toCreationCursor, toPage } from '../platform/http/page.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { toMicros } from '../platform/usd.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import { requireCredentials, requireTrialCount, resolveSettings } from './choices.ts'
import { parseTrialId } from './plan.ts'
import { idReused } from './schema.ts'
import { type Comparison, ComparisonPause, type NewComparison, SubmissionError } from './shapes/schema.ts'
import { connectScope, listDigests, readSource, type ScopeDeps, type ScopeRef, type TaskSelection } from './source.ts'
import * as rows from './sql.ts'
import { addStatistics } from './statistics/answer.ts'
import type { StatisticsCache } from './statistics/statistics.ts'
import { buildStatus, type ComparisonFacts, type SettingFacts, toNamedConfiguration } from './status.ts'
import { enqueueSubmission } from './submit.ts'

type CreateComparisonInput = NewComparison & TaskSelection

/** Creates a comparison. Idempotent: the client chooses the id, and the same request again returns the same comparison. */
export async function createComparison(
  deps: ScopeDeps & { blobs: Blobs },
  by: AuditActor,
  scopeRef: ScopeRef,
  input: CreateComparisonInput,
): Promise<Comparison> {
  const hash = hashRequest(scopeRef, await fillDefaultLevels(deps.db, by.workspaceId, input))
  const find = (db: Db) => rows.findComparisonRow(db, by.workspaceId, input.id)
  const existing = await find(deps.db)
  if (existing) return readExisting(deps.db, existing, hash)
  // The scope is connected outside the transaction, because that may call the code host.
  const scope = await connectScope(deps, by, scopeRef)
  return transact(deps.db, async (tx) => {
    await rows.lockId(tx, by.workspaceId, input.id)
    const concurrent = await find(tx)
    if (concurrent) return readExisting(tx, concurrent, hash)
    await storeComparison({ ...deps, db: tx }, by, scope, input, hash)
    return readStatus(tx, await find(tx))
  })
}

async function readExisting(db: Db, row: rows.ComparisonRow, hash: Buffer): Promise<Comparison> {
  if (row.request_hash.equals(hash)) return readStatus(db, row)
  throw new Problem(
    idReused,
    `Comparison ${row.id} was created with a different request. Repeat that request, or choose a new id.`,
  )
}

async function storeComparison(
  deps: CredentialDeps & { blobs: Blobs },
  by: AuditActor,
  scope: rows.ComparisonScope,
  input: CreateComparisonInput,
  hash: Buffer,
): Promise<void> {
  const tx = deps.db
  const source = await readSource(tx, by.workspaceId, scope, input)
  const settings = await resolveSettings(deps, by.workspaceId, input.models, () => listDigests(source))
  await requireCredentials(deps, by.workspaceId, input)
  requireTrialCount(source.tasks * settings.length * input.attempts)
  const { key } = await rows.insertComparison(tx, {
    workspace_id: by.workspaceId,
    id: input.id,
    request_hash: hash,
    scope_kind: scope.kind,
    scope_owner: scope.owner,
    scope_name: scope.name,
    repository: scope.repository,
    sandbox: input.sandbox,
    sandbox_credential_id: input.sandboxCredentialId,
    skip_completed: input.skipCompleted,
    attempts: input.attempts,
    concurrency: input.concurrency ?? null,
    settings: settings.length,
    budget_micros: toBudgetMicros(input.budgetUsd),
    trial_budget_micros: toBudgetMicros(input.trialBudgetUsd),
    source: JSON.stringify(source.resolved),
  })
  await setSharedBudget(tx, {
    id: rows.toSharedBudgetId(key),
    workspaceId: by.workspaceId,
    budgetMicros: toBudgetMicros(input.budgetUsd),
  })
  await rows.insertSettings(tx, key, settings)
  await rows.holdCredentials(tx, key)
  await enqueueSubmission(tx, key)
  await record(tx, { ...by, action: 'comparison.created', subject: input.id })
}

export const toBudgetMicros = (usd: number | undefined): number | null => (usd === undefined ? null : toMicros(usd))

/** Fills in default reasoning levels, so that omitting a level and naming the default are the same request. */
async function fillDefaultLevels(
  db: Db,
  workspaceId: string,
  input: CreateComparisonInput,
): Promise<CreateComparisonInput> {
  const models = input.models.map(async (choice) => {
    if (choice.reasoningLevel !== undefined) return choice
    const model = await findModel(db, workspaceId, choice.catalogId, { alsoRemoved: true })
    return model ? { ...choice, reasoningLevel: model.defaultLevel } : choice
  })
  return { ...input, models: await Promise.all(models) }
}

/** Hashes a request. The order of the fields is fixed: stored hashes must keep matching. */
function hashRequest(scopeRef: ScopeRef, { models, ...rest }: CreateComparisonInput): Buffer {
  const { sandbox, sandboxCredentialId, skipCompleted, attempts, budgetUsd, trialBudgetUsd, concurrency } = rest
  const { tasks, taskNames } = rest
  const fields: unknown[] = [
    toScopeKey(scopeRef),
    models.map(({ catalogId, credentialId, harnesses, reasoningLevel, configuration, timeoutMultiplier = 1 }) => [
      catalogId,
      credentialId,
      harnesses,
      reasoningLevel ?? null,
      ...(configuration === undefined ? [] : [configuration]),
      ...(timeoutMultiplier === 1 ? [] : [timeoutMultiplier]),
    ]),
    [sandbox, sandboxCredentialId, skipCompleted, attempts, budgetUsd ?? null, trialBudgetUsd ?? null],
    concurrency ?? null,
  ]
  if (tasks) fields.push(tasks.map(({ runId, taskId }) => [runId, taskId]))
  if (taskNames) fields.push(taskNames)
  return createHash('sha256').update(JSON.stringify(fields)).digest()
}

/** Identifies a scope. Repository names are compared without case. */
const toScopeKey = ({ kind, owner, name }: ScopeRef): string[] =>
  kind === 'repository' ? [kind, owner.toLowerCase(), name.toLowerCase()] : [kind, owner, name]

/** Reads a comparison by its path. Throws not found if it belongs to another scope. */
export async function readComparisonRow(
  db: Db,
  workspaceId: string,
  scope: rows.ComparisonScope,
  id: string,
): Promise<rows.ComparisonRow> {
  const row = await rows.findComparisonRow(db, workspaceId, id.toLowerCase())
  if (!row || !rows.isInScope(row, scope)) throw new Problem(notFound, `Comparison ${id} not found`)
  return row
}

/** Reads the comparison of a trial. Throws not found if it belongs to another workspace. */
export async function readComparisonOfTrial(db: Db, workspaceId: string, trialId: string) {
  const trial = parseTrialId(trialId)
  const row = trial && (await rows.findComparisonByKey(db, trial.comparison))
  if (!row || row.workspace_id !== workspaceId) throw new Problem(notFound, `Trial ${trialId} not found`)
  return { row, scope: toScope(row) }
}

/** Reads the status without statistics and answer. Throws not found if there is no row. */
export async function readStatus(db: Db, row: rows.ComparisonRow | undefined): Promise<Comparison> {
  const [status] = row ? await buildStatuses(db, [row]) : []
  if (!status) throw new Problem(notFound, 'Comparison not found')
  return status
}

/** Reads the status with statistics and answer. */
export async function readStatusWithStatistics(
  db: Db,
  statistics: StatisticsCache,
  row: rows.ComparisonRow,
): Promise<Comparison> {
  // The status is read before the statistics: an answer must not be final before all its results are counted.
  const status = await readStatus(db, row)
  return addStatistics(status, await statistics.load(db, row))
}

/** Reads the status again after a change, with statistics and answer. */
export async function reloadStatus(
  db: Db,
  statistics: StatisticsCache,
  { key }: rows.ComparisonRow,
): Promise<Comparison> {
  const row = await rows.findComparisonByKey(db, key)
  if (!row) throw new Problem(notFound, 'Comparison not found')
  return readStatusWithStatistics(db, statistics, row)
}

/** Page size for requests without `limit` and `cursor`. */
const UNPAGED_LIMIT = 1000
/** Page size for requests with a cursor but without `limit`. */
const PAGE_LIMIT = 50

type ListComparisonsOptions = { limit?: number | undefined; cursor?: Page['cursor'] }

/** Lists the comparisons of a scope, or of the whole workspace. */
export async function listComparisons(
  db: Db,
  workspaceId: string,
  scope: rows.ComparisonScope | undefined,
  { limit, cursor }: ListComparisonsOptions,
) {
  const page = { limit: limit ?? (cursor ? PAGE_LIMIT : UNPAGED_LIMIT), cursor }
  const listed = await rows.listComparisonRows(db, workspaceId, scope, page)
  if (scope && listed.length === 0) await requireScope(db, workspaceId, scope)
  const { items, nextCursor } = toPage(listed, page.limit, toCreationCursor)
  return { evaluations: await buildStatuses(db, items), nextCursor }
}

/** Throws unless the scope exists. A removed benchmark is still a scope if it has comparisons. */
export async function requireScope(db: Db, workspaceId: string, scope: rows.ComparisonScope): Promise<void> {
  if (scope.kind === 'repository' || (await rows.hasComparisons(db, workspaceId, scope))) return
  await readSource(db, workspaceId, scope)
}

/** A query that other folders, which may not import sql.ts, use as it is. */
export const { hasOpenComparisons } = rows

/** Builds the statuses of many comparisons with a constant number of queries. */
async function buildStatuses(db: Db, comparisons: rows.ComparisonRow[]): Promise<Comparison[]> {
  const keys = comparisons.map(({ key }) => key)
  const settings = Map.groupBy(await rows.listCountedSettings(db, keys), ({ comparison }) => comparison)
  const now = new Date()
  return comparisons.map((row) => {
    const ownSettings = settings.get(row.key) ?? []
    return buildStatus(
      toFacts(row),
      ownSettings.map((setting) => ({ facts: toSettingFacts(setting), counts: setting.counts, live: setting.live })),
      now,
    )
  })
}

const toFacts = (row: rows.ComparisonRow): ComparisonFacts => ({
  id: row.id,
  scope: toScope(row),
  state: row.state,
  sandbox: row.sandbox,
  skipCompleted: row.skip_completed,
  attempts: row.attempts,
  concurrency: row.concurrency,
  frozen: row.frozen_digest === null ? null : { digest: row.frozen_digest, tasks: row.tasks ?? 0 },
  submissionError: SubmissionError.nullable().parse(row.submission_error),
  pause: ComparisonPause.nullable().parse(row.pause),
  createdAt: row.created_at,
  submittedAt: row.submitted_at,
  startedAt: row.started_at,
  finishedAt: row.finished_at,
  budgetMicros: row.budget_micros,
  trialBudgetMicros: row.trial_budget_micros,
})

const toScope = ({ scope_kind: kind, scope_owner: owner, scope_name: name }: rows.ComparisonRow) =>
  kind === 'benchmark' ? { kind, datasetOrg: owner, dataset: name } : { kind, owner, name }

type SettingRow = Awaited<ReturnType<typeof rows.listSettingRows>>[number]

const toSettingFacts = (row: SettingRow): SettingFacts => ({
  id: row.id,
  model: { catalogId: row.catalog_id, name: row.name, label: row.label },
  harness: row.harness,
  harnessVersion: row.harness_version,
  reasoningLevel: row.reasoning_level,
  provider: row.provider,
  custom: row.custom,
  configuration: toNamedConfiguration(row),
  timeoutMultiplier: row.timeout_multiplier ?? undefined,
  isolation: row.isolation,
})

/** Returns true if an open comparison uses the model. */
export const isModelInUse = (db: Db, workspaceId: string, catalogId: string): Promise<boolean> =>
  rows.hasOpenSettings(db, workspaceId, { catalog_id: catalogId })

/** Returns true if an open comparison uses the harness. */
export const isHarnessInUse = (db: Db, workspaceId: string, harness: string): Promise<boolean> =>
  rows.hasOpenSettings(db, workspaceId, { harness })

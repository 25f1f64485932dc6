import { z } from 'zod'
import { type GranteeTotals, readGranteeTotals } from '../../gateway/spend/spend.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { notFound, Problem } from '../../platform/problem.ts'
import { toUsd } from '../../platform/usd.ts'
import { type AuditActor, record } from '../../workspaces/audit.ts'
import { diffCell, toCountPart } from '../counts.ts'
import { formatTrialKey, type OutcomeResources, type OutcomeUsage, type TrialOutcome } from '../outcome.ts'
import { findOrdinal, formatTrialId, listCellOrdinals, type PlanShape, parseTrialId, toPosition } from '../plan.ts'
import { trialNotScored } from '../schema.ts'
import {
  type ComparisonMatrix,
  type ComparisonTrial,
  Timings,
  type TrialChange,
  TrialClass,
  type TrialState,
  type TrialWithAttempts,
  Usage,
} from '../shapes/schema.ts'
import {
  type ComparisonRow,
  type EndedTrials,
  findComparisonByKey,
  listEndedTrials,
  listRepositorySettings,
  listRepositoryTasks,
  listSettingRows,
  listTaskRows,
} from '../sql.ts'
import { StoredArtifact, toArtifact } from './artifacts.ts'
import { toTrialGrantee } from './spend.ts'
import * as rows from './sql.ts'

/** A comparison with its tasks and settings in order. Trial rows refer to them by position. */
export type ComparisonAxes = {
  key: number
  workspaceId: string
  submittedAt: Date | null
  tasks: ComparisonTrial['task'][]
  settings: { id: string }[]
  attempts: number
}

type ListTrialsOptions = {
  limit: number
  cursor?: number | undefined
  setting?: string | undefined
  task?: string | undefined
  state?: TrialState | undefined
  class?: TrialClass | undefined
}

export async function listTrials(db: Db, axes: ComparisonAxes, options: ListTrialsOptions) {
  const filter: rows.TrialFilter = {
    limit: options.limit + 1,
    after: options.cursor,
    state: options.state,
    class: options.class,
  }
  if (options.setting !== undefined) filter.setting = axes.settings.findIndex(({ id }) => id === options.setting)
  if (options.task !== undefined) filter.task = axes.tasks.findIndex(({ name }) => name === options.task)
  const listed = await rows.listTrialRows(db, axes.key, filter)
  const page = listed.slice(0, options.limit)
  const last = listed.length > options.limit ? page.at(-1) : undefined
  return { trials: await loadTrials(db, axes, page), nextCursor: last ? String(last.ordinal) : null }
}

export async function readTrialRow(db: Db, axes: ComparisonAxes, id: string): Promise<rows.TrialRow> {
  const ordinal = findOrdinal(axes.key, id)
  const [row] = ordinal === undefined ? [] : await rows.listTrialRows(db, axes.key, { after: ordinal - 1, limit: 1 })
  if (!row || row.ordinal !== ordinal) throw new Problem(notFound, `Trial ${id} not found`)
  return row
}

export async function readTrial(db: Db, axes: ComparisonAxes, row: rows.TrialRow): Promise<TrialWithAttempts> {
  const failed = await rows.listFailedAttempts(db, row)
  return {
    ...(await loadTrial(db, axes, row)),
    spoiled: failed.map(({ class: trialClass, error, at }) => ({
      class: TrialClass.parse(trialClass),
      error,
      at: at.toISOString(),
    })),
  }
}

/** Returns the trials of the same setting and attempt on the tasks before and after. */
export function toNeighbours({ tasks, settings }: ComparisonAxes, { comparison, ordinal, task }: rows.TrialRow) {
  const idAt = (step: number): string => formatTrialId({ comparison, ordinal: ordinal + step * settings.length })
  return { previous: task === 0 ? null : idAt(-1), next: task === tasks.length - 1 ? null : idAt(1) }
}

const Detail = z.object({
  rewards: z.record(z.string(), z.number()).default({}),
  timings: Timings.omit({ queue: true }).optional(),
  usage: Usage.nullable().default(null),
  costSource: z.string().optional(),
  modelsServed: z.array(z.string()).default([]),
  levelMismatches: z.number().optional(),
  isolation: z.string().nullable().default(null),
  artifacts: z.array(StoredArtifact).default([]),
  error: z.string().optional(),
  explanation: z.string().optional(),
  droppedChanges: z.array(z.string()).optional(),
  failedTests: z.array(z.string()).optional(),
})

async function loadTrials(db: Db, axes: ComparisonAxes, trials: readonly rows.TrialRow[]): Promise<ComparisonTrial[]> {
  const spend = await readGranteeTotals(db, axes.workspaceId, trials.map(toTrialGrantee))
  return trials.map((row) => toTrial(axes, row, isReused(row) ? undefined : spend.get(toTrialGrantee(row))))
}

async function loadTrial(db: Db, axes: ComparisonAxes, row: rows.TrialRow): Promise<ComparisonTrial> {
  const [trial] = await loadTrials(db, axes, [row])
  if (!trial) throw new Error('Trial row was not converted')
  return trial
}

const isReused = ({ reused_comparison: from }: rows.TrialRow): boolean => from !== null

const NO_TIMINGS = { prepare: null, agent: null, verify: null, total: null }

function toTrial(axes: ComparisonAxes, row: rows.TrialRow, spend: GranteeTotals | undefined): ComparisonTrial {
  const detail = Detail.parse(row.detail ?? {})
  return {
    id: formatTrialId(row),
    task: axes.tasks[row.task] ?? { name: '', digest: '' },
    settingId: axes.settings[row.setting]?.id ?? '',
    attempt: row.attempt,
    state: row.state,
    class: row.class === null ? null : TrialClass.parse(row.class),
    reward: row.reward,
    rewards: detail.rewards,
    reusedFrom: findReusedId(row),
    timings: { queue: computeQueueSeconds(axes, row), ...(detail.timings ?? NO_TIMINGS) },
    usage: detail.usage,
    ...toTrialCost(row, detail, spend),
    isolation: detail.isolation,
    verifyMode: row.verify_mode,
    retries: row.retries,
    artifacts: row.artifacts === null ? [] : detail.artifacts.map(toArtifact),
    error: detail.error,
    explanation: detail.explanation,
    droppedChanges: detail.droppedChanges,
    failedTests: detail.failedTests,
    voided: toVoided(row),
  }
}

const FINISHED_STATES: readonly TrialState[] = ['passed', 'failed', 'errored']

/**
 * Returns the current cost of a trial, which is what its grants have spent. Null if it has not called a model yet or the
 * price of a call is unknown. Trials without a model are free, with the source `none`.
 */
function toTrialCost(row: rows.TrialRow, { costSource }: z.infer<typeof Detail>, spend: GranteeTotals | undefined) {
  const isUnknown = row.cost_micros === null && FINISHED_STATES.includes(row.state)
  const micros = isUnknown ? null : (spend?.settledMicros ?? row.cost_micros)
  return {
    costUsd: micros === null ? null : toUsd(micros),
    retriesCostUsd: isUnknown ? 0 : toUsd(spend?.earlierMicros ?? 0),
    pendingUsd: toUsd(spend?.pendingMicros ?? 0),
    costSource: costSource ?? (row.cost_micros === null || row.state === 'queued' ? null : 'none'),
  }
}

const toVoided = ({ void_at: at, void_reason: reason }: rows.TrialRow): ComparisonTrial['voided'] =>
  at === null ? undefined : { reason: reason ?? '', at: at.toISOString() }

const findReusedId = ({ reused_comparison: comparison, reused_ordinal: ordinal }: rows.TrialRow): string | undefined =>
  comparison === null || ordinal === null ? undefined : formatTrialId({ comparison, ordinal })

function computeQueueSeconds(
  { submittedAt }: ComparisonAxes,
  { started_at, reused_comparison }: rows.TrialRow,
): number | null {
  if (!submittedAt || !started_at || reused_comparison !== null) return null
  return Math.max(0, (started_at.getTime() - submittedAt.getTime()) / 1000)
}

export function requireArtifact(row: rows.TrialRow, name: string): { blob: string; artifact: StoredArtifact } {
  const artifact = Detail.parse(row.detail ?? {}).artifacts.find((each) => each.name === name)
  if (!artifact || row.artifacts === null) throw new Problem(notFound, `Artifact ${name} not found`)
  return { blob: row.artifacts, artifact }
}

const STATE_LETTERS = { queued: 'q', running: 'r', passed: 'p', failed: 'f', errored: 'e', canceled: 'c' } as const

export async function readMatrix(db: Db, axes: ComparisonAxes): Promise<ComparisonMatrix> {
  const states = new Map(
    (await rows.listTrialStates(db, axes.key)).map(({ ordinal, state }) => [ordinal, STATE_LETTERS[state]]),
  )
  const shape = toShape(axes)
  const cellsOf = (task: number): string =>
    axes.settings
      .flatMap((_, setting) => listCellOrdinals(shape, { task, setting }))
      .map((ordinal) => states.get(ordinal) ?? '-')
      .join('')
  return {
    settings: axes.settings.map(({ id }) => id),
    attempts: axes.attempts,
    tasks: axes.tasks.map(({ name }, task) => ({ name, cells: cellsOf(task) })),
  }
}

const toShape = ({ tasks, settings, attempts }: ComparisonAxes): PlanShape => ({
  tasks: tasks.length,
  settings: settings.length,
  attempts,
})

/** Excludes a scored trial from the results. The trial remains visible, with the reason. */
export async function voidTrial(
  db: Db,
  axes: ComparisonAxes,
  by: AuditActor,
  { id, reason }: { id: string; reason: string },
) {
  const { ordinal } = await readTrialRow(db, axes, id)
  await transact(db, async (tx) => {
    const shape = toShape(axes)
    const { task, setting, attempt } = toPosition(shape, ordinal)
    const cell = await rows.lockTrials(tx, axes.key, listCellOrdinals(shape, { task, setting }))
    const before = cell.map((row) => ({ ...row, costMicros: row.cost_micros, voided: row.voided_at !== null }))
    const voided = before.find((trial) => trial.ordinal === ordinal)
    if (!voided || voided.voided || (voided.state !== 'passed' && voided.state !== 'failed'))
      throw new Problem(trialNotScored, 'The trial has no result, or is already voided.')
    const after = before.map((trial) => (trial.attempt === attempt ? { ...trial, voided: true } : trial))
    await rows.storeVoid(tx, { comparison: axes.key, ordinal }, reason)
    await rows.addCounts(tx, { comparison: axes.key, setting, part: toCountPart(ordinal) }, diffCell(before, after))
    await record(tx, { ...by, action: 'trial.voided', subject: id, detail: { reason } })
  })
  return loadTrial(db, axes, await readTrialRow(db, axes, id))
}

/**
 * Maximum number of trial events per poll. With more changes, no trial events are sent: clients get the status and
 * can read the matrix.
 */
const CHANGES_MAX = 5000

/** Lists the trials that have changed since a snapshot, for the events of a comparison. */
export async function readChanges(db: Db, axes: ComparisonAxes, snapshot: string): Promise<TrialChange[]> {
  const changed = await rows.listChangedTrials(db, axes.key, snapshot, CHANGES_MAX + 1)
  if (changed.length > CHANGES_MAX) return []
  return changed.map((row) => ({
    id: formatTrialId({ comparison: axes.key, ordinal: row.ordinal }),
    task: axes.tasks[row.task]?.name ?? '',
    settingId: axes.settings[row.setting]?.id ?? '',
    attempt: row.attempt,
    state: row.state,
    class: row.class === null ? null : TrialClass.parse(row.class),
    reward: row.reward,
  }))
}

/** Loads the tasks and settings that the trial rows of a comparison refer to by position. */
export async function loadComparisonAxes(db: Db, row: ComparisonRow): Promise<ComparisonAxes> {
  const tasks = await listTaskRows(db, row.key)
  const settings = await listSettingRows(db, [row.key])
  return {
    key: row.key,
    workspaceId: row.workspace_id,
    submittedAt: row.submitted_at,
    attempts: row.attempts,
    tasks: tasks.map(({ name, digest, run_id, task_id }) => ({
      name,
      digest,
      runId: run_id ?? undefined,
      taskId: task_id ?? undefined,
    })),
    settings: settings.map(({ id }) => ({ id })),
  }
}

/**
 * Returns the axes for a trial that is readable through this comparison: those of this comparison, or for a reused trial
 * those of the comparison that it comes from, which may belong to another scope.
 */
export async function loadAxesForTrial(db: Db, axes: ComparisonAxes, trialId: string): Promise<ComparisonAxes> {
  const source = parseTrialId(trialId)
  if (!source || source.comparison === axes.key || !(await rows.isTrialReusedBy(db, axes.key, source))) return axes
  const row = await findComparisonByKey(db, source.comparison)
  return row ? loadComparisonAxes(db, row) : axes
}

/** A setting as one comparison ran it. */
export type RunSetting = Awaited<ReturnType<typeof listRepositorySettings>>[number]

// Values were validated when they were written. Validating every row again would be slow.
const UncheckedUsage = z.custom<OutcomeUsage | null>()
const UncheckedResources = z.custom<OutcomeResources | null>()

/** Loads all finished trials on a repository's tasks, and the settings of each of its comparisons, oldest comparison first. */
export async function loadOutcomes(
  db: Db,
  repository: number,
): Promise<{ settings: RunSetting[]; outcomes: TrialOutcome[] }> {
  const settings = await listRepositorySettings(db, repository)
  const tasks = Map.groupBy(await listRepositoryTasks(db, repository), ({ comparison }) => comparison)
  const groups = await listEndedTrials(db, [...new Set(settings.map(({ comparison }) => comparison))])
  const outcomes = groups.flatMap((group) => {
    const { comparison, setting: position } = group
    const setting = settings.find((each) => each.comparison === comparison && each.position === position)
    const digests = new Map(tasks.get(comparison)?.map((task) => [task.position, task.digest]))
    return setting
      ? group.tasks.map((taskPosition, index) => toOutcome(group, index, setting, digests.get(taskPosition) ?? ''))
      : []
  })
  return { settings, outcomes }
}

function toOutcome(group: EndedTrials, index: number, setting: RunSetting, taskDigest: string): TrialOutcome {
  const pick = <T>(values: readonly T[]): T | null => values[index] ?? null
  const costMicros = pick(group.cost_micros)
  return {
    setting: setting.id,
    task: taskDigest,
    trial: formatTrialKey(pick(group.origins) ?? 0, pick(group.ordinals) ?? 0),
    comparison: setting.comparison,
    comparedAt: setting.created_at.getTime(),
    attempt: pick(group.attempts) ?? 0,
    state: pick(group.states) ?? 'errored',
    isVoided: pick(group.voided) ?? false,
    harnessVersion: setting.harness_version,
    sandbox: setting.sandbox,
    verifyMode: pick(group.verify_modes),
    isolation: pick(group.isolations),
    costMicros,
    costSource: pick(group.cost_sources) ?? (costMicros === null ? null : 'none'),
    usage: UncheckedUsage.parse(pick(group.usages)),
    resources: UncheckedResources.parse(pick(group.resources)),
    agentSeconds: pick(group.agent_seconds),
  }
}

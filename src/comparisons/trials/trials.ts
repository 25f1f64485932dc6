import { z } from 'zod'
import { readSubjectSpend, type SubjectSpend } from '../../gateway/spend/spend.ts'
import { type Db, transact } from '../../platform/db/db.ts'
import { notFound, Problem } from '../../platform/problem.ts'
import { type By, record } from '../../workspaces/audit.ts'
import { cellChange, partOf } from '../counts.ts'
import { cellOf, ordinalOf, type Shape } from '../plan.ts'
import type { Usage as SettingUsage } from '../quote.ts'
import { trialNotScored } from '../schema.ts'
import {
  type Matrix,
  Timings,
  type Trial,
  type TrialChange,
  TrialClass,
  type TrialState,
  type TrialWithAttempts,
  Usage,
} from '../shapes/schema.ts'
import { ordinalIn, trialId } from '../trial-id.ts'
import { KeptArtifact, shownArtifact } from './artifacts.ts'
import { listUsage } from './forecast/sql.ts'
import { subjectOf } from './spend.ts'
import * as rows from './sql.ts'

/** What the positions in a trial's row stand for. */
export type Names = {
  key: number
  workspaceId: string
  submittedAt: Date | null
  tasks: Trial['task'][]
  settings: { id: string }[]
  attempts: number
}

type Wish = {
  limit: number
  cursor?: number | undefined
  setting?: string | undefined
  task?: string | undefined
  state?: TrialState | undefined
  class?: TrialClass | undefined
}

export async function listTrials(db: Db, names: Names, wish: Wish) {
  const filter: rows.TrialFilter = { limit: wish.limit + 1, after: wish.cursor, state: wish.state, class: wish.class }
  if (wish.setting !== undefined) filter.setting = names.settings.findIndex(({ id }) => id === wish.setting)
  if (wish.task !== undefined) filter.task = names.tasks.findIndex(({ name }) => name === wish.task)
  const found = await rows.listTrialRows(db, names.key, filter)
  const shown = found.slice(0, wish.limit)
  const last = found.length > wish.limit ? shown.at(-1) : undefined
  return { trials: await shownTrials(db, names, shown), nextCursor: last ? String(last.ordinal) : null }
}

export async function readTrialRow(db: Db, names: Names, id: string): Promise<rows.TrialRow> {
  const ordinal = ordinalIn(names.key, id)
  const [row] = ordinal === undefined ? [] : await rows.listTrialRows(db, names.key, { after: ordinal - 1, limit: 1 })
  if (!row || row.ordinal !== ordinal) throw new Problem(notFound, `There is no trial ${id} here.`)
  return row
}

/** Whether a trial of the comparison has taken its result from this one, which belongs to another comparison. */
export const isReusedBy = (db: Db, comparison: number, source: rows.TrialKey): Promise<boolean> =>
  rows.hasReused(db, comparison, source)

export async function readTrial(db: Db, names: Names, row: rows.TrialRow): Promise<TrialWithAttempts> {
  const spoiled = await rows.listSpoiled(db, row)
  return {
    ...(await shownTrial(db, names, row)),
    spoiled: spoiled.map(({ class: word, error, at }) => ({
      class: TrialClass.parse(word),
      error,
      at: at.toISOString(),
    })),
  }
}

const Detail = z.object({
  rewards: z.record(z.string(), z.number()).default({}),
  timings: Timings.omit({ queue: true }).optional(),
  usage: Usage.nullable().default(null),
  costSource: z.string().optional(),
  modelsServed: z.array(z.string()).default([]),
  levelMismatches: z.number().optional(),
  isolation: z.string().nullable().default(null),
  artifacts: z.array(KeptArtifact).default([]),
  error: z.string().optional(),
})

async function shownTrials(db: Db, names: Names, found: readonly rows.TrialRow[]): Promise<Trial[]> {
  const spend = await readSubjectSpend(db, names.workspaceId, found.map(subjectOf))
  return found.map((row) => trialOf(names, row, isReused(row) ? undefined : spend.get(subjectOf(row))))
}

async function shownTrial(db: Db, names: Names, row: rows.TrialRow): Promise<Trial> {
  const [trial] = await shownTrials(db, names, [row])
  if (!trial) throw new Error('The trial is not shown.')
  return trial
}

const isReused = ({ reused_comparison: from }: rows.TrialRow): boolean => from !== null

const NO_TIMINGS = { prepare: null, agent: null, verify: null, total: null }

function trialOf(names: Names, row: rows.TrialRow, spend: SubjectSpend | undefined): Trial {
  const detail = Detail.parse(row.detail ?? {})
  return {
    id: trialId(row),
    task: names.tasks[row.task] ?? { name: '', digest: '' },
    settingId: names.settings[row.setting]?.id ?? '',
    attempt: row.attempt,
    state: row.state,
    class: row.class === null ? null : TrialClass.parse(row.class),
    reward: row.reward,
    rewards: detail.rewards,
    ...reusedFrom(row),
    timings: { queue: queueSeconds(names, row), ...(detail.timings ?? NO_TIMINGS) },
    usage: detail.usage,
    ...costOf(row, detail, spend),
    isolation: detail.isolation,
    verifyMode: row.verify_mode,
    retries: row.retries,
    artifacts: row.artifacts === null ? [] : detail.artifacts.map(shownArtifact),
    ...(detail.error === undefined ? {} : { error: detail.error }),
    ...voidOf(row),
  }
}

const FINISHED: readonly TrialState[] = ['passed', 'failed', 'errored']

/**
 * A trial costs what its grants have spent, at every moment. Null: it has not asked a model yet, or the price of a call
 * is unknown. The source of a trial that asks no model is `none`: it is free.
 */
function costOf(row: rows.TrialRow, { costSource }: z.infer<typeof Detail>, spend: SubjectSpend | undefined) {
  const isUnknown = row.cost_micros === null && FINISHED.includes(row.state)
  const micros = isUnknown ? null : (spend?.settledMicros ?? row.cost_micros)
  return {
    costUsd: micros === null ? null : micros / 1e6,
    retriesCostUsd: isUnknown ? 0 : (spend?.earlierMicros ?? 0) / 1e6,
    pendingUsd: (spend?.pendingMicros ?? 0) / 1e6,
    costSource: costSource ?? (row.cost_micros === null || row.state === 'queued' ? null : 'none'),
  }
}

const voidOf = ({ void_at: at, void_reason: reason }: rows.TrialRow): Pick<Trial, 'voided'> =>
  at === null ? {} : { voided: { reason: reason ?? '', at: at.toISOString() } }

function reusedFrom({ reused_comparison: comparison, reused_ordinal: ordinal }: rows.TrialRow): {
  reusedFrom?: string
} {
  return comparison === null || ordinal === null ? {} : { reusedFrom: trialId({ comparison, ordinal }) }
}

function queueSeconds({ submittedAt }: Names, { started_at, reused_comparison }: rows.TrialRow): number | null {
  if (!submittedAt || !started_at || reused_comparison !== null) return null
  return Math.max(0, (started_at.getTime() - submittedAt.getTime()) / 1000)
}

export function findArtifact(row: rows.TrialRow, name: string): { blob: string; artifact: KeptArtifact } {
  const artifact = Detail.parse(row.detail ?? {}).artifacts.find((each) => each.name === name)
  if (!artifact || row.artifacts === null) throw new Problem(notFound, 'The trial has no such artifact.')
  return { blob: row.artifacts, artifact }
}

const LETTERS = { queued: 'q', running: 'r', passed: 'p', failed: 'f', errored: 'e', canceled: 'c' } as const

export async function readMatrix(db: Db, names: Names): Promise<Matrix> {
  const states = new Map((await rows.listStates(db, names.key)).map(({ ordinal, state }) => [ordinal, LETTERS[state]]))
  const shape = shapeOf(names)
  const cellsOf = (task: number): string =>
    names.settings
      .flatMap((_, setting) => cellOf(shape, { task, setting }))
      .map((ordinal) => states.get(ordinal) ?? '-')
      .join('')
  return {
    settings: names.settings.map(({ id }) => id),
    attempts: names.attempts,
    tasks: names.tasks.map(({ name }, task) => ({ name, cells: cellsOf(task) })),
  }
}

const shapeOf = ({ tasks, settings, attempts }: Names): Shape => ({
  ...{ tasks: tasks.length, settings: settings.length, attempts },
})

/** Takes a result out of what counts. It stays to be seen, with the reason. */
export async function voidTrial(db: Db, names: Names, by: By, { id, reason }: { id: string; reason: string }) {
  const { ordinal } = await readTrialRow(db, names, id)
  await transact(db, async (tx) => {
    const shape = shapeOf(names)
    const { task, setting, attempt } = placeIn(shape, ordinal)
    const cell = await rows.lockTrials(tx, names.key, cellOf(shape, { task, setting }))
    const before = cell.map((row) => ({ ...row, costMicros: row.cost_micros, voided: row.voided_at !== null }))
    const own = before.find((trial) => trial.ordinal === ordinal)
    if (!own || own.voided || (own.state !== 'passed' && own.state !== 'failed'))
      throw new Problem(trialNotScored, 'It has no result that could be voided.')
    const after = before.map((trial) => (trial.attempt === attempt ? { ...trial, voided: true } : trial))
    await rows.storeVoid(tx, { comparison: names.key, ordinal }, reason)
    await rows.addCounts(tx, { comparison: names.key, setting, part: partOf(ordinal) }, cellChange(before, after))
    await record(tx, { ...by, action: 'trial.voided', subject: id, detail: { reason } })
  })
  return shownTrial(db, names, await readTrialRow(db, names, id))
}

function placeIn(shape: Shape, ordinal: number) {
  const cell = ordinal % (shape.tasks * shape.settings)
  const place = { task: Math.floor(cell / shape.settings), setting: cell % shape.settings }
  const attempt = (ordinal - ordinalOf(shape, { ...place, attempt: 1 })) / (shape.tasks * shape.settings) + 1
  return { ...place, attempt }
}

/** When more changed at once, they are not told one by one: the status is enough, and the matrix has them all. */
const CHANGES_MAX = 5000

export async function readChanges(db: Db, names: Names, snapshot: string): Promise<TrialChange[]> {
  const changed = await rows.listChanged(db, names.key, snapshot, CHANGES_MAX + 1)
  if (changed.length > CHANGES_MAX) return []
  return changed.map((row) => ({
    id: trialId({ comparison: names.key, ordinal: row.ordinal }),
    task: names.tasks[row.task]?.name ?? '',
    settingId: names.settings[row.setting]?.id ?? '',
    attempt: row.attempt,
    state: row.state,
    class: row.class === null ? null : TrialClass.parse(row.class),
    reward: row.reward,
  }))
}

export const currentSnapshot = (db: Db): Promise<string> => rows.currentSnapshot(db)

type Wanted = { id: string; provider: string }

/** What each of these settings has used before. The reference is free. */
export async function usageOf(
  db: Db,
  workspaceId: string,
  settings: readonly Wanted[],
): Promise<(SettingUsage | 'free' | 'unknown')[]> {
  const ids = settings.map(({ id }) => id)
  const used = new Map((await listUsage(db, workspaceId, ids)).map((usage) => [usage.id, usage]))
  return settings.map(({ id, provider }) => (provider === 'none' ? 'free' : (used.get(id) ?? 'unknown')))
}

import { z } from 'zod'
import type { BatchRow } from '../taskgen/pipeline/batch-state.ts'
import { passedBy, type StageName } from '../taskgen/pipeline/stage.ts'
import { BatchError, Difficulty, Generation, runIdOf, usdOf, Waiting } from '../taskgen/schema.ts'
import type { BatchRun } from './schema.ts'
import type { Tally } from './sql.ts'

const Warnings = z.array(z.string())

/** A batch as it is shown: its row, and how many of its tasks are of each sort. */
export const runOf = (row: BatchRow, tallies: readonly Tally[]): BatchRun => ({
  runId: runIdOf(row.id),
  state: row.state,
  createdAt: row.created_at.toISOString(),
  startedAt: row.started_at?.toISOString() ?? null,
  finishedAt: row.finished_at?.toISOString() ?? null,
  candidateCounts: { easy: row.easy, medium: row.medium, hard: row.hard },
  generation: row.generation === null ? null : Generation.parse(row.generation),
  counts: row.generation === null ? importedCounts(tallies) : generatedCounts(row, tallies),
  byDifficulty: {
    easy: bucket(row, tallies, 'easy'),
    medium: bucket(row, tallies, 'medium'),
    hard: bucket(row, tallies, 'hard'),
  },
  shortfall: row.step === 'make' ? shortfallOf(row, tallies) : 0,
  rejections: rejectionsOf(tallies),
  ...(row.waiting === null ? {} : { waiting: Waiting.parse(row.waiting) }),
  warnings: Warnings.parse(row.warnings),
  ...(row.budget_micros === null ? {} : { budgetUsd: usdOf(row.budget_micros) }),
  costUsd: usdOf(tallies.reduce((all, { spentMicros }) => all + spentMicros, 0)),
  ...(row.error === null ? {} : { error: BatchError.parse(row.error) }),
})

const sum = (tallies: readonly Tally[], isWanted: (tally: Tally) => boolean = () => true): number =>
  tallies.filter(isWanted).reduce((all, { count }) => all + count, 0)

/** Rejected without ever coming near a sandbox. */
const UNSCREENED = ['invalid_task', 'unsafe_task', 'duplicate_name']

const endsOf = (tallies: readonly Tally[]) => ({
  ready: sum(tallies, ({ state }) => state === 'ready'),
  rejected: sum(tallies, ({ state }) => state === 'rejected'),
  deferred: sum(tallies, ({ isDeferred }) => isDeferred),
  approved: sum(tallies, ({ decision }) => decision === 'approved'),
  declined: sum(tallies, ({ decision }) => decision === 'declined'),
})

function importedCounts(tallies: readonly Tally[]): BatchRun['counts'] {
  const ends = endsOf(tallies)
  return {
    discovered: sum(tallies),
    screened: sum(tallies, ({ reason }) => reason === null || !UNSCREENED.includes(reason)),
    ...{ executed: 0, authored: 0, validated: ends.ready, verified: 0 },
    ...ends,
  }
}

function generatedCounts(row: BatchRow, tallies: readonly Tally[]): BatchRun['counts'] {
  const passed = (stage: StageName) => sum(tallies, (tally) => passedBy(tally.stage, stage))
  return {
    ...{ discovered: row.discovered ?? 0, screened: row.screened ?? 0 },
    ...{ executed: passed('execution'), authored: passed('authoring') },
    ...{ validated: passed('validation'), verified: passed('review') },
    ...endsOf(tallies),
  }
}

function bucket(row: BatchRow, tallies: readonly Tally[], difficulty: Difficulty) {
  const own = tallies.filter((tally) => tally.bucket === difficulty)
  return { requested: row[difficulty], selected: sum(own), ready: sum(own, ({ state }) => state === 'ready') }
}

const shortfallOf = (row: BatchRow, tallies: readonly Tally[]): number =>
  Difficulty.options
    .map((difficulty) => bucket(row, tallies, difficulty))
    .map(({ requested, selected }) => Math.max(0, requested - selected))
    .reduce((all, missing) => all + missing, 0)

function rejectionsOf(tallies: readonly Tally[]): Record<string, number> {
  const reasons = Map.groupBy(tallies, ({ reason }) => reason)
  return Object.fromEntries(
    [...reasons].flatMap(([reason, own]) => (reason === null ? [] : [[reason, sum(own)] as const])),
  )
}

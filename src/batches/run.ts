import { z } from 'zod'
import type { BatchRow } from '../taskgen/pipeline/batch-state.ts'
import { hasPassed, type StageName } from '../taskgen/pipeline/stage.ts'
import { BatchError, Difficulty, Generation, toRunId, toUsd, Waiting } from '../taskgen/schema.ts'
import type { BatchRun } from './schema.ts'
import type { TaskTally } from './sql.ts'

const Warnings = z.array(z.string())

/** Converts a batch and the counts of its tasks to the API format. */
export const toBatchRun = (row: BatchRow, tallies: readonly TaskTally[]): BatchRun => ({
  runId: toRunId(row.id),
  state: row.state,
  createdAt: row.created_at.toISOString(),
  startedAt: row.started_at?.toISOString() ?? null,
  finishedAt: row.finished_at?.toISOString() ?? null,
  candidateCounts: { easy: row.easy, medium: row.medium, hard: row.hard },
  generation: row.generation === null ? null : Generation.parse(row.generation),
  counts: row.generation === null ? importedCounts(tallies) : generatedCounts(row, tallies),
  byDifficulty: {
    easy: countBucket(row, tallies, 'easy'),
    medium: countBucket(row, tallies, 'medium'),
    hard: countBucket(row, tallies, 'hard'),
  },
  shortfall: row.step === 'make' ? countShortfall(row, tallies) : 0,
  rejections: countRejections(tallies),
  waiting: row.waiting === null ? undefined : Waiting.parse(row.waiting),
  warnings: Warnings.parse(row.warnings),
  budgetUsd: row.budget_micros === null ? undefined : toUsd(row.budget_micros),
  costUsd: toUsd(tallies.reduce((all, { spentMicros }) => all + spentMicros, 0)),
  error: row.error === null ? undefined : BatchError.parse(row.error),
})

const sumCounts = (tallies: readonly TaskTally[], isWanted: (tally: TaskTally) => boolean = () => true): number =>
  tallies.filter(isWanted).reduce((all, { count }) => all + count, 0)

/** Rejected without ever coming near a sandbox. */
const UNSCREENED = ['invalid_task', 'unsafe_task', 'duplicate_name']

const countEnds = (tallies: readonly TaskTally[]) => ({
  ready: sumCounts(tallies, ({ state }) => state === 'ready'),
  rejected: sumCounts(tallies, ({ state }) => state === 'rejected'),
  deferred: sumCounts(tallies, ({ isDeferred }) => isDeferred),
  approved: sumCounts(tallies, ({ decision }) => decision === 'approved'),
  declined: sumCounts(tallies, ({ decision }) => decision === 'declined'),
})

function importedCounts(tallies: readonly TaskTally[]): BatchRun['counts'] {
  const ends = countEnds(tallies)
  return {
    discovered: sumCounts(tallies),
    screened: sumCounts(tallies, ({ reason }) => reason === null || !UNSCREENED.includes(reason)),
    executed: 0,
    authored: 0,
    validated: ends.ready,
    verified: 0,
    ...ends,
  }
}

function generatedCounts(row: BatchRow, tallies: readonly TaskTally[]): BatchRun['counts'] {
  const passed = (stage: StageName) => sumCounts(tallies, (tally) => hasPassed(tally.stage, stage))
  return {
    discovered: row.discovered ?? 0,
    screened: row.screened ?? 0,
    executed: passed('execution'),
    authored: passed('authoring'),
    validated: passed('validation'),
    verified: passed('review'),
    ...countEnds(tallies),
  }
}

function countBucket(row: BatchRow, tallies: readonly TaskTally[], difficulty: Difficulty) {
  const own = tallies.filter((tally) => tally.bucket === difficulty)
  return {
    requested: row[difficulty],
    selected: sumCounts(own),
    ready: sumCounts(own, ({ state }) => state === 'ready'),
  }
}

const countShortfall = (row: BatchRow, tallies: readonly TaskTally[]): number =>
  Difficulty.options
    .map((difficulty) => countBucket(row, tallies, difficulty))
    .map(({ requested, selected }) => Math.max(0, requested - selected))
    .reduce((all, missing) => all + missing, 0)

function countRejections(tallies: readonly TaskTally[]): Record<string, number> {
  const reasons = Map.groupBy(tallies, ({ reason }) => reason)
  return Object.fromEntries(
    [...reasons].flatMap(([reason, own]) => (reason === null ? [] : [[reason, sumCounts(own)] as const])),
  )
}

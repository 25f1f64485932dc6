import { z } from 'zod'
import { BatchError, type BatchRun, type Difficulty, Waiting } from './shapes/schema.ts'
import type { BatchRow, Tally } from './sql.ts'

export const runIdOf = (batch: string): string => `batch-${batch}`
export const batchIdOf = (runId: string): string => runId.slice('batch-'.length)

const Warnings = z.array(z.string())

/** A batch as it is shown: its row, and how many of its tasks are of each sort. */
export const runOf = (row: BatchRow, tallies: readonly Tally[]): BatchRun => ({
  runId: runIdOf(row.id),
  state: row.state,
  createdAt: row.created_at.toISOString(),
  startedAt: row.started_at?.toISOString() ?? null,
  finishedAt: row.finished_at?.toISOString() ?? null,
  candidateCounts: { easy: 0, medium: 0, hard: 0 },
  generation: null,
  counts: countsOf(tallies),
  byDifficulty: { easy: bucket(tallies, 'easy'), medium: bucket(tallies, 'medium'), hard: bucket(tallies, 'hard') },
  shortfall: 0,
  rejections: rejectionsOf(tallies),
  ...(row.waiting === null ? {} : { waiting: Waiting.parse(row.waiting) }),
  warnings: Warnings.parse(row.warnings),
  costUsd: 0,
  ...(row.error === null ? {} : { error: BatchError.parse(row.error) }),
})

const sum = (tallies: readonly Tally[], isWanted: (tally: Tally) => boolean = () => true): number =>
  tallies.filter(isWanted).reduce((all, { count }) => all + count, 0)

/** Rejected without ever coming near a sandbox. */
const UNSCREENED = ['invalid_task', 'unsafe_task', 'duplicate_name']

function countsOf(tallies: readonly Tally[]): BatchRun['counts'] {
  const ready = sum(tallies, ({ state }) => state === 'ready')
  return {
    discovered: sum(tallies),
    screened: sum(tallies, ({ reason }) => reason === null || !UNSCREENED.includes(reason)),
    executed: 0,
    authored: 0,
    validated: ready,
    verified: 0,
    ready,
    rejected: sum(tallies, ({ state }) => state === 'rejected'),
    deferred: 0,
    approved: sum(tallies, ({ decision }) => decision === 'approved'),
    declined: sum(tallies, ({ decision }) => decision === 'declined'),
  }
}

function bucket(tallies: readonly Tally[], difficulty: z.infer<typeof Difficulty>) {
  const own = tallies.filter((tally) => tally.difficulty === difficulty)
  return { requested: 0, selected: sum(own), ready: sum(own, ({ state }) => state === 'ready') }
}

function rejectionsOf(tallies: readonly Tally[]): Record<string, number> {
  const reasons = Map.groupBy(tallies, ({ reason }) => reason)
  return Object.fromEntries(
    [...reasons].flatMap(([reason, own]) => (reason === null ? [] : [[reason, sum(own)] as const])),
  )
}

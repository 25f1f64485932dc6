import { join } from 'node:path'
import type { Db } from '../../platform/db/db.ts'
import { Problem } from '../../platform/problem.ts'
import { toUsd } from '../../platform/usd.ts'
import { openRepositoryMirror, type RepositoryMirrorDeps } from '../../repos/repository-mirror.ts'
import { codeHostUnavailable } from '../../repos/schema.ts'
import { newFunnelCounter } from '../candidates/funnel.ts'
import { scanMirror } from '../candidates/scan.ts'
import { newSelection } from '../candidates/select.ts'
import { AUTHOR_LIMITS, RECIPE_LIMITS, VERIFIER_LIMITS } from '../models/stage-model.ts'
import {
  type BatchPreview,
  type CandidateCounts,
  type PreviewBatchInput,
  type PreviewProgress,
  repositoryUnreadable,
} from '../schema.ts'
import { toDiscoveryFailure } from './discover.ts'
import { findUsualMicros, listTriedHeads } from './sql.ts'

export type PreviewDeps = { db: Db; repositories: RepositoryMirrorDeps; scansFolder: string }

type PreviewRepository = Parameters<typeof openRepositoryMirror>[1]
type PreviewHooks = { signal: AbortSignal; onProgress: (progress: PreviewProgress) => void }

const NO_COUNTS: CandidateCounts = { easy: 0, medium: 0, hard: 0 }
/** Number of pull requests between two reports of progress. */
const PROGRESS_EVERY = 100

/** Counts available candidates and rejections. Executes nothing and calls no model. */
export async function previewBatch(
  deps: PreviewDeps,
  repository: PreviewRepository,
  { candidateCounts = NO_COUNTS, again }: PreviewBatchInput,
  { signal, onProgress }: PreviewHooks,
): Promise<BatchPreview> {
  const tried = again ? new Set<string>() : await listTriedHeads(deps.db, repository.key)
  const selection = newSelection(candidateCounts, (head) => tried.has(head))
  const funnelCounter = newFunnelCounter()
  const cacheFile = join(deps.scansFolder, `repository-${repository.key}.jsonl`)
  onProgress({ step: 'mirror', pullRequests: 0 })
  try {
    await using mirror = await openRepositoryMirror(deps.repositories, repository, { signal })
    for await (const screened of scanMirror(mirror, { now: new Date(), signal, cacheFile })) {
      funnelCounter.add(screened)
      selection.add(screened)
      if (selection.discovered % PROGRESS_EVERY === 1) onProgress({ step: 'scan', pullRequests: selection.discovered })
    }
    const { branch, tip = null, isShallow } = mirror
    const buckets = countBuckets(candidateCounts, selection)
    return {
      branch,
      tip,
      pullRequests: selection.discovered,
      buckets,
      shortfall: buckets.easy.shortfall + buckets.medium.shortfall + buckets.hard.shortfall,
      cost: await estimateCost(deps.db, repository.workspaceId, selection.chosen.length),
      rejections: funnelCounter.funnel().rejections,
      warnings: [
        ...(tip === null ? ['The repository is empty.'] : []),
        ...(isShallow ? ['Older history is missing: the repository is a shallow clone.'] : []),
      ],
    }
  } catch (error) {
    signal.throwIfAborted()
    throw toProblem(error)
  }
}

function countBuckets(
  counts: CandidateCounts,
  { available, tried }: Pick<ReturnType<typeof newSelection>, 'available' | 'tried'>,
) {
  const bucket = (name: keyof CandidateCounts) => ({
    requested: counts[name],
    available: available[name],
    tried: tried[name],
    shortfall: Math.max(0, counts[name] - available[name]),
  })
  return { easy: bucket('easy'), medium: bucket('medium'), hard: bucket('hard') }
}

/** Maximum cost of one candidate: the budgets of all its models together. */
const CANDIDATE_MICROS_MAX = [AUTHOR_LIMITS, VERIFIER_LIMITS, RECIPE_LIMITS]
  .map(({ budgetMicros }) => budgetMicros)
  .reduce((one, other) => one + other)
/** Minimum number of earlier tasks for an estimate of the usual cost. */
const SAMPLE_TASKS_MIN = 5

async function estimateCost(db: Db, workspaceId: string, candidates: number): Promise<BatchPreview['cost']> {
  const usualMicros = await findUsualMicros(db, workspaceId, SAMPLE_TASKS_MIN)
  return {
    candidates,
    capUsd: toUsd(candidates * CANDIDATE_MICROS_MAX),
    usualUsd: usualMicros === undefined ? null : toUsd(Math.round(candidates * usualMicros)),
  }
}

function toProblem(error: unknown): Problem {
  const failure = toDiscoveryFailure(error)
  if (failure.kind === 'failed') return new Problem(repositoryUnreadable, failure.message)
  return new Problem(codeHostUnavailable, failure.message, {
    headers: { 'retry-after': String(failure.retryAfterSeconds) },
  })
}

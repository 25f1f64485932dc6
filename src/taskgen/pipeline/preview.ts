import { join } from 'node:path'
import type { Db } from '../../platform/db/db.ts'
import { Problem } from '../../platform/problem.ts'
import { openRepositoryMirror, type RepositoryMirrorTools } from '../../repos/repository-mirror.ts'
import { codeHostUnavailable } from '../../repos/schema.ts'
import { newFunnel } from '../candidates/funnel.ts'
import { scanMirror } from '../candidates/scan-mirror.ts'
import { choosing } from '../candidates/select.ts'
import { AUTHOR_LIMITS, RECIPE_LIMITS, VERIFIER_LIMITS } from '../models/stage-model.ts'
import {
  type BatchPreview,
  type CandidateCounts,
  type PreviewProgress,
  type PreviewWish,
  repositoryUnreadable,
  usdOf,
} from '../schema.ts'
import { troubleOf } from './discover.ts'
import { listTriedHeads, readUsualSpend } from './sql.ts'

export type PreviewTools = { db: Db; repositories: RepositoryMirrorTools; scansFolder: string }

type Repository = Parameters<typeof openRepositoryMirror>[1]
type Watch = { signal: AbortSignal; onProgress: (progress: PreviewProgress) => void }

const NOTHING: CandidateCounts = { easy: 0, medium: 0, hard: 0 }
const TELL_EVERY = 100

/** What each bucket could supply, and why the rest are out. Nothing runs, no model is asked. */
export async function previewBatch(
  tools: PreviewTools,
  repository: Repository,
  { candidateCounts = NOTHING, again }: PreviewWish,
  { signal, onProgress }: Watch,
): Promise<BatchPreview> {
  const tried = again ? new Set<string>() : await listTriedHeads(tools.db, repository.key)
  const found = choosing(candidateCounts, (head) => tried.has(head))
  const counting = newFunnel()
  const cacheFile = join(tools.scansFolder, `repository-${repository.key}.jsonl`)
  onProgress({ step: 'mirror', pullRequests: 0 })
  try {
    await using mirror = await openRepositoryMirror(tools.repositories, repository, { signal })
    for await (const judged of scanMirror(mirror, { now: new Date(), signal, cacheFile })) {
      counting.add(judged)
      found.add(judged)
      if (found.discovered % TELL_EVERY === 1) onProgress({ step: 'scan', pullRequests: found.discovered })
    }
    const { branch, tip = null, isShallow } = mirror
    const buckets = bucketsOf(candidateCounts, found)
    return {
      ...{ branch, tip, pullRequests: found.discovered, buckets },
      shortfall: buckets.easy.shortfall + buckets.medium.shortfall + buckets.hard.shortfall,
      cost: await costOf(tools.db, repository.workspaceId, found.chosen.length),
      rejections: counting.funnel().rejections,
      warnings: [
        ...(tip === null ? ['The repository is empty.'] : []),
        ...(isShallow ? ['Older history is not there: the repository is a shallow clone.'] : []),
      ],
    }
  } catch (error) {
    signal.throwIfAborted()
    throw asProblem(error)
  }
}

function bucketsOf(
  counts: CandidateCounts,
  { available, tried }: Pick<ReturnType<typeof choosing>, 'available' | 'tried'>,
) {
  const bucket = (name: keyof CandidateCounts) => ({
    ...{ requested: counts[name], available: available[name], tried: tried[name] },
    shortfall: Math.max(0, counts[name] - available[name]),
  })
  return { easy: bucket('easy'), medium: bucket('medium'), hard: bucket('hard') }
}

const CANDIDATE_MICROS = [AUTHOR_LIMITS, VERIFIER_LIMITS, RECIPE_LIMITS]
  .map(({ budgetMicros }) => budgetMicros)
  .reduce((one, other) => one + other)
/** Fewer tasks than these say little of the next. */
const TELLING_TASKS = 5

async function costOf(db: Db, workspaceId: string, candidates: number): Promise<BatchPreview['cost']> {
  const usual = await readUsualSpend(db, workspaceId, TELLING_TASKS)
  return {
    ...{ candidates, capUsd: usdOf(candidates * CANDIDATE_MICROS) },
    usualUsd: usual === undefined ? null : usdOf(Math.round(candidates * usual)),
  }
}

function asProblem(error: unknown): Problem {
  const trouble = troubleOf(error)
  if (trouble.kind === 'failed') return new Problem(repositoryUnreadable, trouble.message)
  return new Problem(codeHostUnavailable, trouble.message, { headers: { 'retry-after': String(trouble.seconds) } })
}

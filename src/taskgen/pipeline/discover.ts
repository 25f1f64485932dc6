import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { z } from 'zod'
import { type Db, storableText } from '../../platform/db/db.ts'
import { derivedId } from '../../platform/ids.ts'
import {
  defineJobHandler,
  defineJobType,
  enqueue,
  type Job,
  type JobHandler,
  toWorkspaceJobOptions,
} from '../../platform/jobs/jobs.ts'
import { CodeHostUnavailable } from '../../repos/github.ts'
import { RepositoryUnreadable } from '../../repos/mirror/local-clone.ts'
import { MirrorRefused } from '../../repos/mirror/source.ts'
import { findCommits, type Mirror } from '../../repos/mirror.ts'
import { openRepositoryMirror, type RepositoryMirrorDeps } from '../../repos/repository-mirror.ts'
import { scanMirror } from '../candidates/scan.ts'
import {
  type CandidateSelection,
  listShortfallWarnings,
  newSelection,
  type SelectedCandidate,
} from '../candidates/select.ts'
import type { TaskPullRequest } from '../schema.ts'
import {
  failBatch,
  findOpenBatch,
  lockOpenBatch,
  newBatchError,
  readBatchSource,
  readBatchWorkspace,
  updateBatchState,
} from './batch-state.ts'
import { type EnqueueDeps, enqueueStage, toGenerationKey } from './enqueue.ts'
import { StoredGeneration } from './resolve.ts'
import * as rows from './sql.ts'
import { isStage, type OnBatchStep, STAGES } from './stage.ts'

export type DiscoverDeps = EnqueueDeps & {
  db: Db
  repositories: RepositoryMirrorDeps
  /** Folder of the verdict caches. */
  scansFolder: string
  step?: OnBatchStep | undefined
}

const DiscoverPayload = z.strictObject({ batch: z.uuid() })
type DiscoverPayload = z.infer<typeof DiscoverPayload>

const discoverJobType = defineJobType({ type: 'batch.discover', payload: DiscoverPayload, priority: 10 })

export const discoverJobId = (batch: string): string => derivedId('batch discovery', batch)

export async function enqueueDiscovery(tx: Db, batch: string, runAt?: Date): Promise<string> {
  const workspaceId = await readBatchWorkspace(tx, batch)
  const { fairGroup, limitKeys } = toWorkspaceJobOptions(workspaceId)
  const keys = [...limitKeys, toGenerationKey(workspaceId)]
  return enqueue(tx, discoverJobType, { batch }, { id: discoverJobId(batch), runAt, fairGroup, limitKeys: keys })
}

export const discoverJob = (deps: DiscoverDeps): JobHandler<DiscoverPayload> =>
  defineJobHandler(discoverJobType, {
    run: (job) => runDiscovery(deps, job),
    onGivenUp: (tx, { batch }, reason) => failBatch(tx, batch, newBatchError('internal_error', reason, true)),
  })

/** Lists the candidates of the repository and enqueues a job for each. Stored steps are not repeated. */
async function runDiscovery(deps: DiscoverDeps, job: Job<DiscoverPayload>): Promise<void> {
  const { batch } = job.payload
  const { step = () => {} } = deps
  step('discover.claimed')
  const row = await findOpenBatch(deps.db, batch)
  const failure = row?.step === 'discover' ? await discover(deps, job, row) : undefined
  await job.finish(async (tx) => {
    if (failure) return recordFailure(tx, batch, failure)
    const openBatch = await lockOpenBatch(tx, batch)
    if (openBatch) await enqueueStages(tx, deps, openBatch)
  })
  step('discover.finished')
}

/** Ensures that each task in progress has exactly one job. */
async function enqueueStages(
  tx: Db,
  deps: DiscoverDeps,
  { id: batch, step, generation }: rows.BatchRow,
): Promise<void> {
  // The batch was canceled and resumed during the scan.
  if (step === 'discover') {
    await enqueueDiscovery(tx, batch)
    return
  }
  const workspaceId = await readBatchWorkspace(tx, batch)
  const owner = { batch, workspaceId, generation: StoredGeneration.parse(generation) }
  for (const { id: task, stage } of await rows.listTasksInProgress(tx, batch))
    if (isStage(stage)) await enqueueStage(tx, deps, { ...owner, task }, stage)
  await updateBatchState(tx, deps, batch)
}

/** `failed` ends the batch. `later` repeats the discovery. */
type DiscoveryFailure =
  | { kind: 'failed'; code: string; message: string }
  | { kind: 'later'; message: string; retryAfterSeconds: number }

async function recordFailure(tx: Db, batch: string, failure: DiscoveryFailure): Promise<void> {
  if (failure.kind === 'failed') return failBatch(tx, batch, newBatchError(failure.code, failure.message, true))
  const until = new Date(Date.now() + failure.retryAfterSeconds * 1000)
  await rows.markWaiting(tx, batch, { reason: 'code_host', detail: failure.message, until: until.toISOString() })
  await enqueueDiscovery(tx, batch, until)
}

/** Selects the candidates and stores them. Returns a failure of the code host or the mirror. */
async function discover(
  deps: DiscoverDeps,
  job: Job<DiscoverPayload>,
  row: rows.BatchRow,
): Promise<DiscoveryFailure | undefined> {
  const source = await readBatchSource(deps.db, row.id)
  await rows.beginDiscovery(deps.db, row.id)
  try {
    await using mirror = await openRepositoryMirror(deps.repositories, source, { signal: job.signal })
    const selection = await selectCandidates(deps, mirror, row, job.signal)
    deps.step?.('discover.scanned')
    const candidates = await loadCandidates(mirror, source, selection.chosen, job.signal)
    await job.write(async (tx) => {
      const openBatch = await lockOpenBatch(tx, row.id)
      if (openBatch?.step !== 'discover') return
      if (candidates.length > 0) await rows.insertCandidates(tx, row.id, candidates)
      await rows.setDiscovered(tx, row.id, { ...selection, warnings: listShortfallWarnings(row, selection) })
    })
    deps.step?.('discover.inserted')
    return undefined
  } catch (error) {
    job.signal.throwIfAborted()
    return toDiscoveryFailure(error)
  }
}

const RETRY_SECONDS = 60

/** Converts an error of the code host or the mirror. Transient errors are retried later; others fail the batch. */
export function toDiscoveryFailure(error: unknown): DiscoveryFailure {
  if (error instanceof CodeHostUnavailable)
    return { kind: 'later', message: error.message, retryAfterSeconds: error.retryAfterSeconds ?? RETRY_SECONDS }
  if (error instanceof MirrorRefused && !error.isPermanent)
    return { kind: 'later', message: error.message, retryAfterSeconds: RETRY_SECONDS }
  if (error instanceof MirrorRefused || error instanceof RepositoryUnreadable)
    return { kind: 'failed', code: 'repository_unreadable', message: error.message }
  throw error
}

/** Numbers of candidates to select. `again`: also selects pull requests that earlier batches have tried. */
type SelectionInput = Pick<rows.BatchRow, 'easy' | 'medium' | 'hard' | 'again'> & { repository: number }
type OpenMirror = Awaited<ReturnType<typeof openRepositoryMirror>>

/** Selects candidates, newest first. Stops the scan when there are enough. */
async function selectCandidates(
  { db, scansFolder }: Pick<DiscoverDeps, 'db' | 'scansFolder'>,
  mirror: OpenMirror,
  request: SelectionInput,
  signal: AbortSignal,
): Promise<CandidateSelection> {
  const tried = request.again ? new Set<string>() : await rows.listTriedHeads(db, request.repository)
  const selection = newSelection(request, (head) => tried.has(head))
  const cacheFile = join(scansFolder, `repository-${request.repository}.jsonl`)
  for await (const screened of scanMirror(mirror, { now: new Date(), signal, cacheFile })) {
    selection.add(screened)
    if (selection.isFull()) break
  }
  return selection
}

type BatchSource = Awaited<ReturnType<typeof readBatchSource>>

/** Resolves the commits of selected pull requests. Leaves out those whose commits the mirror does not have. */
async function loadCandidates(
  mirror: Mirror,
  source: BatchSource,
  chosen: readonly SelectedCandidate[],
  signal: AbortSignal,
): Promise<rows.NewCandidate[]> {
  // Two commits per pull request: its base, then its head.
  const names = chosen.flatMap(({ pullRequest }) => [pullRequest.base, pullRequest.head])
  const commits = await findCommits(mirror.location, names, signal)
  const slugs = newSlugs(chosen.length)
  return chosen.flatMap((each, index) => {
    const [base, head, id] = [commits[index * 2], commits[index * 2 + 1], slugs[index]]
    return base === undefined || head === undefined || id === undefined
      ? []
      : [toNewCandidate(source, each, { base, head, id })]
  })
}

const TITLE_LENGTH_MAX = 200
const BODY_LENGTH_MAX = 20_000
const ISSUES_MAX = 3
const ISSUE_TEXT_LENGTH_MAX = 8_000

function toNewCandidate(
  source: BatchSource,
  { pullRequest, verdict }: SelectedCandidate,
  { base, head, id }: { base: string; head: string; id: string },
): rows.NewCandidate {
  const number = pullRequest.number ?? null
  const title = cutText(pullRequest.title, TITLE_LENGTH_MAX)
  const mergedAt = pullRequest.mergedAt.toISOString()
  const body = cutText(pullRequest.body, BODY_LENGTH_MAX)
  const issues = pullRequest.issueTexts.slice(0, ISSUES_MAX).map((issue) => ({
    title: cutText(issue.title, TITLE_LENGTH_MAX),
    body: cutText(issue.body, ISSUE_TEXT_LENGTH_MAX),
  }))
  const { difficulty, features } = verdict
  const shown: TaskPullRequest = { number, title, url: buildUrl(source, number), mergedAt }
  return {
    id,
    stage: STAGES[0],
    pullRequest: shown,
    candidate: { number, title, body, issues, mergedAt, base, head, difficulty, features },
  }
}

const cutText = (text: string, max: number): string => storableText(text.slice(0, max))

const buildUrl = ({ source_kind, host, owner, name }: BatchSource, number: number | null): string | null =>
  source_kind === 'github' && number !== null ? `https://${host}/${owner}/${name}/pull/${number}` : null

/** Letters and digits without those that look alike. */
const SLUG_LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789'
const SLUG_LENGTH = 10

/** Returns random ids, so that neither an id nor its position reveals the pull request. */
function newSlugs(count: number): string[] {
  const slugs = new Set<string>()
  while (slugs.size < count) {
    slugs.add(Array.from({ length: SLUG_LENGTH }, () => SLUG_LETTERS[randomInt(SLUG_LETTERS.length)]).join(''))
  }
  return [...slugs]
}

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { unpackContent } from '../../contents/contents.ts'
import { openSecret } from '../../credentials/secrets.ts'
import { readSpendSince } from '../../gateway/spend/spend.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import { GITHUB } from '../../repos/github-request.ts'
import { findMissingCommits } from '../../repos/mirror/commits.ts'
import { openRepositoryMirror, type RepositoryMirrorDeps } from '../../repos/repository-mirror.ts'
import { type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import type { ModelLimits } from '../models/stage-model.ts'
import { sandboxOf } from './enqueue.ts'
import type { TaskFacts } from './facts.ts'
import { openTaskModel, type StageModelDeps } from './models.ts'
import { granteeOf, type ModelRole } from './spend.ts'
import { readSpent, readStageBegin } from './sql.ts'
import type { StageContext, StageRepository, Stages } from './stage.ts'
import type { OnBatchStep } from './steps.ts'

export type StageWorkDeps = StageModelDeps & {
  blobs: Blobs
  repositories: RepositoryMirrorDeps
  findProvider: (sandbox: string) => SandboxProvider | undefined
  /** Parent of the stages' working folders. It exists. */
  folder: string
  stages: Stages
  step?: OnBatchStep | undefined
}

/** The repository no longer contains the candidate's commits. */
export class HistoryMissing extends Error {
  override name = 'HistoryGone'
}

/** A credential of the batch no longer exists. */
export class StageCredentialMissing extends Error {
  override name = 'CredentialGone'
}

/** There is nothing left to ask models with. */
export class BatchBudgetSpent extends Error {
  override name = 'BudgetSpent'
}

/** Repeated interrupted attempts have used up the candidate's budget. */
export class CandidateBudgetSpent extends Error {
  override name = 'ShareSpent'
  readonly role: ModelRole

  constructor(role: ModelRole) {
    super('Attempts were broken off again and again, and what a candidate may cost is spent.')
    this.role = role
  }
}

type OpenedStageContext = StageContext & AsyncDisposable

/** Opens the resources of a stage on demand and closes them on every path. */
export async function openStageContext(
  tools: StageWorkDeps,
  task: TaskFacts,
  folder: string,
  signal: AbortSignal,
): Promise<OpenedStageContext> {
  const closing = new AsyncDisposableStack()
  const own = { folder: join(folder, 'work'), target: join(folder, 'task') }
  await mkdir(own.folder)
  await mkdir(own.target)
  let mirror: Promise<StageRepository> | undefined
  return {
    ...own,
    repository: () => {
      mirror ??= openRepository(tools, task, closing, signal)
      return mirror
    },
    provider: () => requireProvider(tools, task),
    async model(role, limits) {
      requireNeed(tools, task, role)
      await requireShare(tools, task, role, limits)
      const batchLeftMicros = await budgetLeft(tools, task)
      const model = await openTaskModel(tools, task, { role, limits, batchLeftMicros })
      closing.use(model)
      tools.step?.('stage.granted')
      return model
    },
    files: () => unpackFiles(tools, task, join(folder, 'files')),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  }
}

async function openRepository(
  { repositories }: StageWorkDeps,
  { repository, candidate }: TaskFacts,
  closing: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<StageRepository> {
  const commits = [candidate.base, candidate.head]
  const mirror = await openRepositoryMirror(repositories, repository, { signal, commits })
  closing.use(mirror)
  const missing = await findMissingCommits(mirror.place, commits, signal)
  if (missing.length > 0) throw new HistoryMissing(`The repository has no ${missing.join(', ')} any more.`)
  return { ...mirror, upstream: [`${repository.owner}/${repository.name}`, ...listHosts(repository)] }
}

const listHosts = ({ source_kind, url }: TaskFacts['repository']): string[] =>
  source_kind === 'github' ? [GITHUB] : [URL.parse(url ?? '')?.hostname ?? ''].filter((host) => host !== '')

function requireNeed({ stages }: StageWorkDeps, { stage }: TaskFacts, role: ModelRole): void {
  if (!stages[stage].needs.includes(role)) throw new Error(`The stage ${stage} did not say that it needs ${role}.`)
}

function requireProvider(tools: StageWorkDeps, { stage, generation }: TaskFacts): SandboxProvider {
  const place = sandboxOf(tools.stages[stage], generation)
  if (place === undefined) throw new Error(`The stage ${stage} did not say that it needs sandboxes.`)
  const provider = tools.findProvider(place)
  if (!provider) throw new SandboxUnavailable(`This worker has no sandbox ${place}.`)
  return provider
}

/** An attempt has all of its share; together they have less than three times as much. */
const ATTEMPT_BUDGETS_MAX = 2

/** Interrupted attempts are paid for again, so their number is bounded. */
async function requireShare(
  { db }: StageWorkDeps,
  task: TaskFacts,
  role: ModelRole,
  { budgetMicros }: ModelLimits,
): Promise<void> {
  const holder = { workspaceId: task.workspaceId, subject: granteeOf(task, role) }
  const spent = await readSpendSince(db, holder, await readStageBegin(db, task))
  if (spent >= ATTEMPT_BUDGETS_MAX * budgetMicros) throw new CandidateBudgetSpent(role)
}

/** Concurrent spend is not known yet, so a batch may slightly exceed its budget. */
async function budgetLeft({ db }: StageWorkDeps, { batch, budgetMicros }: TaskFacts): Promise<number | null> {
  if (budgetMicros === null) return null
  const left = budgetMicros - (await readSpent(db, batch))
  if (left <= 0) throw new BatchBudgetSpent('The budget of the batch is spent. Resume with more.')
  return left
}

async function unpackFiles(tools: StageWorkDeps, { digest }: TaskFacts, folder: string): Promise<string> {
  if (digest === null) throw new Error('The task was not assembled yet.')
  await unpackContent(tools, digest, folder)
  return folder
}

/** Each place and each model has a credential. Throws CredentialGone. */
export async function requireCredentials({ repositories, stages }: StageWorkDeps, task: TaskFacts): Promise<void> {
  const { sandboxCredentialId, harborCredentialId, keys } = task.generation
  const ids = { sandbox: sandboxCredentialId, harbor: harborCredentialId, ...keys }
  for (const need of stages[task.stage].needs) {
    if (await openSecret(repositories, task.workspaceId, ids[need])) continue
    throw new StageCredentialMissing(`The credential ${ids[need]} is not there any more.`)
  }
}

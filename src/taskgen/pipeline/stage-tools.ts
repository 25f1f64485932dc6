import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { unpackContent } from '../../contents/contents.ts'
import { openSecret } from '../../credentials/secrets.ts'
import { readSpendSince } from '../../gateway/spend/spend.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import { GITHUB } from '../../repos/github-request.ts'
import { missingCommits } from '../../repos/mirror/commits.ts'
import { openRepositoryMirror, type RepositoryMirrorTools } from '../../repos/repository-mirror.ts'
import { type Provider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import type { ModelLimits } from '../models/stage-model.ts'
import { placeOf } from './enqueue.ts'
import type { TaskFacts } from './facts.ts'
import { type ModelTools, openModelOf } from './models.ts'
import { type Role, subjectOf } from './spend.ts'
import { readSpent, readStageBegin } from './sql.ts'
import type { StageRepository, Stages, StageTools } from './stage.ts'
import type { OnBatchStep } from './steps.ts'

export type WorkTools = ModelTools & {
  blobs: Blobs
  repositories: RepositoryMirrorTools
  findProvider: (sandbox: string) => Provider | undefined
  /** Where stages have their folders. It exists. */
  folder: string
  stages: Stages
  step?: OnBatchStep
}

/** The commits of a candidate are not in its repository any more. */
export class HistoryGone extends Error {
  override name = 'HistoryGone'
}

/** A credential that the batch names is not there any more. */
export class CredentialGone extends Error {
  override name = 'CredentialGone'
}

/** There is nothing left to ask models with. */
export class BudgetSpent extends Error {
  override name = 'BudgetSpent'
}

/** An attempt after the other was paid for, and none came to its end. */
export class ShareSpent extends Error {
  override name = 'ShareSpent'
  readonly role: Role

  constructor(role: Role) {
    super('Attempts were broken off again and again, and what a candidate may cost is spent.')
    this.role = role
  }
}

type OpenTools = StageTools & AsyncDisposable

/** What a stage may use, opened when it asks for it and closed whatever happens. */
export async function openStageTools(
  tools: WorkTools,
  task: TaskFacts,
  folder: string,
  signal: AbortSignal,
): Promise<OpenTools> {
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
    provider: () => providerOf(tools, task),
    async model(role, limits) {
      requireNeed(tools, task, role)
      await requireShare(tools, task, role, limits)
      const batchLeftMicros = await budgetLeft(tools, task)
      const model = await openModelOf(tools, task, { role, limits, batchLeftMicros })
      closing.use(model)
      tools.step?.('stage.granted')
      return model
    },
    files: () => unpackFiles(tools, task, join(folder, 'files')),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  }
}

async function openRepository(
  { repositories }: WorkTools,
  { repository, candidate }: TaskFacts,
  closing: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<StageRepository> {
  const commits = [candidate.base, candidate.head]
  const mirror = await openRepositoryMirror(repositories, repository, { signal, commits })
  closing.use(mirror)
  const missing = await missingCommits(mirror.place, commits, signal)
  if (missing.length > 0) throw new HistoryGone(`The repository has no ${missing.join(', ')} any more.`)
  return { ...mirror, upstream: [`${repository.owner}/${repository.name}`, ...hostOf(repository)] }
}

const hostOf = ({ source_kind, url }: TaskFacts['repository']): string[] =>
  source_kind === 'github' ? [GITHUB] : [URL.parse(url ?? '')?.hostname ?? ''].filter((host) => host !== '')

function requireNeed({ stages }: WorkTools, { stage }: TaskFacts, role: Role): void {
  if (!stages[stage].needs.includes(role)) throw new Error(`The stage ${stage} did not say that it needs ${role}.`)
}

function providerOf(tools: WorkTools, { stage, generation }: TaskFacts): Provider {
  const place = placeOf(tools.stages[stage], generation)
  if (place === undefined) throw new Error(`The stage ${stage} did not say that it needs sandboxes.`)
  const provider = tools.findProvider(place)
  if (!provider) throw new SandboxUnavailable(`This worker has no sandbox ${place}.`)
  return provider
}

/** An attempt has all of its share; together they have less than three times as much. */
const SHARES_BEFORE = 2

/** What broke off is asked again, and paid for again. Not for ever: a provider may break each time in the middle. */
async function requireShare(
  { db }: WorkTools,
  task: TaskFacts,
  role: Role,
  { budgetMicros }: ModelLimits,
): Promise<void> {
  const holder = { workspaceId: task.workspaceId, subject: subjectOf(task, role) }
  const spent = await readSpendSince(db, holder, await readStageBegin(db, task))
  if (spent >= SHARES_BEFORE * budgetMicros) throw new ShareSpent(role)
}

/** What is under way elsewhere is not known yet, so that a batch may end a little above its budget. */
async function budgetLeft({ db }: WorkTools, { batch, budgetMicros }: TaskFacts): Promise<number | null> {
  if (budgetMicros === null) return null
  const left = budgetMicros - (await readSpent(db, batch))
  if (left <= 0) throw new BudgetSpent('The budget of the batch is spent. Resume with more.')
  return left
}

async function unpackFiles(tools: WorkTools, { digest }: TaskFacts, folder: string): Promise<string> {
  if (digest === null) throw new Error('The task was not assembled yet.')
  await unpackContent(tools, digest, folder)
  return folder
}

/** Each place and each model has a credential. Throws CredentialGone. */
export async function requireCredentials({ repositories, stages }: WorkTools, task: TaskFacts): Promise<void> {
  const { sandboxCredentialId, harborCredentialId, keys } = task.generation
  const ids = { sandbox: sandboxCredentialId, harbor: harborCredentialId, ...keys }
  for (const need of stages[task.stage].needs) {
    if (await openSecret(repositories, task.workspaceId, ids[need])) continue
    throw new CredentialGone(`The credential ${ids[need]} is not there any more.`)
  }
}

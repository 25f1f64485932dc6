import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { findModel } from '../../catalog/models.ts'
import { unpackContent } from '../../contents/contents.ts'
import type { Secret } from '../../credentials/seal.ts'
import { openSecret } from '../../credentials/secrets.ts'
import type { Ledger } from '../../gateway/ledger.ts'
import { ModelUnfit, resolveModelTerms } from '../../gateway/model-connection.ts'
import { readSpendMicrosSince } from '../../gateway/spend/spend.ts'
import { mini } from '../../harnesses/mini.ts'
import type { Blobs } from '../../platform/blobs/blob.ts'
import { runOnce } from '../../platform/concurrency.ts'
import type { Db } from '../../platform/db/db.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { GITHUB } from '../../repos/github.ts'
import { listMissingCommits } from '../../repos/mirror.ts'
import { openRepositoryMirror, type RepositoryMirrorDeps } from '../../repos/repository-mirror.ts'
import { type Image, type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { type ModelLimits, openStageModel, type StageModel } from '../models/stage-model.ts'
import { sandboxOf } from './enqueue.ts'
import { granteeOf, hashInput, type ModelRole, type TaskFacts, toBatchBudgetId } from './facts.ts'
import { findCachedResult, readSpentMicros, readStageStart, saveResult } from './sql.ts'
import type { KnownRecipes, OnBatchStep, StageContext, StageRepository, Stages } from './stage.ts'

export type StageWorkDeps = StageModelDeps & {
  blobs: Blobs
  repositories: RepositoryMirrorDeps
  findProvider: (sandbox: string, secret: Secret) => SandboxProvider | undefined
  /** Parent of the stages' working folders. It exists. */
  folder: string
  stages: Stages
  buildHosts?: readonly AllowedHost[] | undefined
  step?: OnBatchStep | undefined
}

/** Thrown when the repository no longer contains the candidate's commits. */
export class HistoryMissing extends Error {
  override name = 'HistoryMissing'
}

/** Thrown when a credential of the batch no longer exists. */
export class StageCredentialMissing extends Error {
  override name = 'StageCredentialMissing'
}

/** Thrown when the budget of the batch is spent. */
export class BatchBudgetSpent extends Error {
  override name = 'BatchBudgetSpent'
}

/** Thrown when repeated interrupted attempts have used up the candidate's budget. */
export class CandidateBudgetSpent extends Error {
  override name = 'CandidateBudgetSpent'
  readonly role: ModelRole

  constructor(role: ModelRole) {
    super('The budget of the candidate was spent by repeated attempts that were interrupted.')
    this.role = role
  }
}

type OpenedStageContext = StageContext &
  AsyncDisposable & {
    /** Marks the images that the stage built for removal on close. */
    discardImages(): void
  }

/** Opens the resources of a stage on demand and closes them on every path. */
export async function openStageContext(
  deps: StageWorkDeps,
  task: TaskFacts,
  folder: string,
  signal: AbortSignal,
): Promise<OpenedStageContext> {
  const resources = new AsyncDisposableStack()
  const folders = { folder: join(folder, 'work'), target: join(folder, 'task') }
  await mkdir(folders.folder)
  await mkdir(folders.target)
  const provider = await findTaskProvider(deps, task)
  const images = provider && resources.use(trackImages(provider))
  return {
    ...folders,
    workspaceId: task.workspaceId,
    repository: runOnce(() => openRepository(deps, task, resources, signal)),
    provider: () => images?.provider ?? throwNoProvider(deps, task),
    discardImages: () => images?.discard(),
    async model(role, limits) {
      requireNeed(deps, task, role)
      await requireAttemptBudget(deps, task, role, limits)
      const batchLeftMicros = await readRemainingMicros(deps, task)
      const model = await openTaskModel(deps, task, { role, limits, batchLeftMicros })
      resources.use(model)
      deps.step?.('stage.granted')
      return model
    },
    recipes: openKnownRecipes(deps, task),
    buildHosts: deps.buildHosts ?? [],
    files: () => unpackFiles(deps, task, join(folder, 'files')),
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  }
}

/** Stores recipes among the results of the environment stage, under keys that no candidate has. */
function openKnownRecipes({ db }: StageWorkDeps, { workspaceId, repository }: TaskFacts): KnownRecipes {
  const toKey = (key: string) => ({
    workspaceId,
    stage: 'environment' as const,
    digest: hashInput({ stage: 'recipe', version: 1, inputs: [repository.key, key] }),
  })
  return {
    find: async (key) => (await findCachedResult(db, toKey(key)))?.result.output ?? undefined,
    async save(key, recipe) {
      await saveResult(db, toKey(key), { output: recipe, evidence: null }, 0)
    },
  }
}

/** Maximum time of fetching a submodule in a stage with a sandbox, whose slot is taken meanwhile. */
const SUBMODULE_TIMEOUT_MS = 5 * 60_000

async function openRepository(
  { repositories, stages }: StageWorkDeps,
  { repository, candidate, stage, generation }: TaskFacts,
  resources: AsyncDisposableStack,
  signal: AbortSignal,
): Promise<StageRepository> {
  const commits = [candidate.base, candidate.head]
  const submoduleTimeoutMs = sandboxOf(stages[stage], generation) === undefined ? undefined : SUBMODULE_TIMEOUT_MS
  const mirror = await openRepositoryMirror(repositories, repository, { signal, commits, submoduleTimeoutMs })
  resources.use(mirror)
  const missing = await listMissingCommits(mirror.location, commits, signal)
  if (missing.length > 0) throw new HistoryMissing(`The repository no longer has ${missing.join(', ')}.`)
  const keep = (submodule: AsyncDisposable) => {
    resources.use(submodule)
  }
  return { ...mirror, keep, upstream: [`${repository.owner}/${repository.name}`, ...listHosts(repository)] }
}

const listHosts = ({ source_kind, url }: TaskFacts['repository']): string[] =>
  source_kind === 'github' ? [GITHUB] : [URL.parse(url ?? '')?.hostname ?? ''].filter((host) => host !== '')

/** Throws if the stage uses a model that it does not declare as a need. */
function requireNeed({ stages }: StageWorkDeps, { stage }: TaskFacts, role: ModelRole): void {
  if (!stages[stage].needs.includes(role)) throw new Error(`The stage ${stage} does not declare that it needs ${role}.`)
}

/** Finds the provider of a stage's sandbox: the one of its credential, or the one of this machine. */
export async function findTaskProvider(
  { repositories, stages, findProvider }: StageWorkDeps,
  { stage, generation, workspaceId }: TaskFacts,
): Promise<SandboxProvider | undefined> {
  const sandbox = sandboxOf(stages[stage], generation)
  if (sandbox === undefined) return undefined
  const { sandboxCredentialId, harborCredentialId } = generation
  const id = stages[stage].needs.includes('sandbox') ? sandboxCredentialId : harborCredentialId
  const opened = await openSecret(repositories, workspaceId, id)
  return opened && findProvider(sandbox, opened.secret)
}

function throwNoProvider({ stages }: StageWorkDeps, { stage, generation }: TaskFacts): never {
  const sandbox = sandboxOf(stages[stage], generation)
  if (sandbox === undefined) throw new Error(`The stage ${stage} does not declare that it needs a sandbox.`)
  throw new SandboxUnavailable(`This worker has no sandbox ${sandbox}.`)
}

/**
 * A new attempt gets the full candidate budget, and starts only if earlier attempts spent less than this many budgets.
 * The total stays below three budgets.
 */
const ATTEMPT_BUDGETS_MAX = 2

/** Throws if interrupted attempts have spent too much: each new attempt repeats their calls and pays again. */
async function requireAttemptBudget(
  { db }: StageWorkDeps,
  task: TaskFacts,
  role: ModelRole,
  { budgetMicros }: ModelLimits,
): Promise<void> {
  const grantee = { workspaceId: task.workspaceId, grantee: granteeOf(task, role) }
  const spentMicros = await readSpendMicrosSince(db, grantee, await readStageStart(db, task))
  if (spentMicros >= ATTEMPT_BUDGETS_MAX * budgetMicros) throw new CandidateBudgetSpent(role)
}

/** Returns the remaining budget. Spend of concurrent calls is not known yet; the gateway checks the shared budget too. */
async function readRemainingMicros({ db }: StageWorkDeps, { batch, budgetMicros }: TaskFacts): Promise<number | null> {
  if (budgetMicros === null) return null
  const remaining = budgetMicros - (await readSpentMicros(db, batch))
  if (remaining <= 0) throw new BatchBudgetSpent('The budget of the batch is spent. Resume with a larger budget.')
  return remaining
}

async function unpackFiles(deps: StageWorkDeps, { digest }: TaskFacts, folder: string): Promise<string> {
  if (digest === null) throw new Error('The task was not assembled yet.')
  await unpackContent(deps, digest, folder)
  return folder
}

/** Checks that the credentials of the stage's sandbox and models exist. Throws StageCredentialMissing. */
export async function requireCredentials({ repositories, stages }: StageWorkDeps, task: TaskFacts): Promise<void> {
  const { sandboxCredentialId, harborCredentialId, keys } = task.generation
  const ids = { sandbox: sandboxCredentialId, harbor: harborCredentialId, ...keys }
  for (const need of stages[task.stage].needs) {
    if (await openSecret(repositories, task.workspaceId, ids[need])) continue
    throw new StageCredentialMissing(`The credential ${ids[need]} no longer exists.`)
  }
}

type StageModelDeps = { db: Db; ledger: Ledger; gatewayUrl: () => string | undefined }

type StageModelInput = { role: ModelRole; limits: ModelLimits; batchLeftMicros: number | null }

/** Opens the author or verifier model for a task. Throws ModelUnfit. */
async function openTaskModel(
  { db, ledger, gatewayUrl: findGatewayUrl }: StageModelDeps,
  task: TaskFacts,
  { role, limits, batchLeftMicros }: StageModelInput,
): Promise<StageModel> {
  const gatewayUrl = findGatewayUrl()
  if (gatewayUrl === undefined)
    throw new ModelUnfit('The worker does not know the address of the gateway. Set ASSAY_GATEWAY_URL.')
  const { authorModel, verifierModel, reasoning, keys } = task.generation
  const catalogId = role === 'author' ? authorModel : verifierModel
  const model = await findModel(db, task.workspaceId, catalogId, { alsoRemoved: true })
  if (!model) throw new ModelUnfit(`The catalog no longer has ${catalogId}.`)
  return openStageModel(
    { ledger, gatewayUrl },
    {
      ...resolveModelTerms(model, reasoning, mini),
      workspaceId: task.workspaceId,
      grantee: granteeOf(task, role),
      credentialId: keys[role],
      ...limits,
      sharedBudget: toBatchBudgetId(task.batch),
      batchLeftMicros,
      deferrals: task.deferrals,
    },
  )
}

/** Images that stages of this process use, by provider and digest, with the number of stages. */
const IMAGES_IN_USE = new WeakMap<SandboxProvider, Map<string, number>>()

type CandidateImages = AsyncDisposable & {
  /** The provider, remembering the images that are built through it. */
  provider: SandboxProvider
  /** Marks these images for removal on close, except those that another stage uses. Shared images stay. */
  discard(): void
}

/** Tracks the images that a stage builds for its candidate, so that those of a rejected candidate can be removed. */
export function trackImages(provider: SandboxProvider): CandidateImages {
  const userCounts = IMAGES_IN_USE.get(provider) ?? new Map<string, number>()
  IMAGES_IN_USE.set(provider, userCounts)
  const built = new Map<string, Image>()
  let isDiscarded = false
  return {
    provider: {
      ...provider,
      async prepare(source, options) {
        const image = await provider.prepare(source, options)
        if (source.kind === 'prebuilt' || options.isShared || built.has(image.digest)) return image
        built.set(image.digest, image)
        userCounts.set(image.digest, (userCounts.get(image.digest) ?? 0) + 1)
        return image
      },
    },
    discard() {
      isDiscarded = true
    },
    async [Symbol.asyncDispose]() {
      for (const [digest, image] of built) {
        const otherUsers = (userCounts.get(digest) ?? 1) - 1
        if (otherUsers > 0) userCounts.set(digest, otherUsers)
        else userCounts.delete(digest)
        // An image that cannot be removed now is evicted later.
        if (isDiscarded && otherUsers === 0) await provider.discard(image).catch(() => {})
      }
    },
  }
}

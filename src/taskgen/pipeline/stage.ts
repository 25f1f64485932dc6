import { z } from 'zod'
import type { Json } from '../../harnesses/json.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import type { SandboxProvider } from '../../sandboxes/sandbox.ts'
import { Features } from '../candidates/screen-diff.ts'
import type { SubmoduleObjects } from '../environment/read-submodules.ts'
import type { ModelLimits, StageModel } from '../models/stage-model.ts'
import { Difficulty, type Generation } from '../schema.ts'
import type { StageResult } from '../stage-result.ts'

/** Stages of the pipeline, in order. */
export const STAGES = [
  'split',
  'environment',
  'execution',
  'authoring',
  'lint',
  'assembly',
  'validation',
  'review',
  'difficulty',
] as const
export type StageName = (typeof STAGES)[number]

/** The stage that writes the files of the task. From here on it has a digest. */
export const ASSEMBLY_STAGE: StageName = 'assembly'
/** First stage that uses the instruction. A task whose instruction was edited returns to it. */
export const FIRST_REVIEWED_STAGE: StageName = 'lint'

/** A selected pull request. Its texts are untrusted and truncated. */
export const CandidateFacts = z.object({
  number: z.number().nullable(),
  title: z.string(),
  body: z.string(),
  /** Linked issues. Empty for candidates selected before issues were stored. */
  issues: z.array(z.object({ title: z.string(), body: z.string() })).default([]),
  mergedAt: z.string(),
  /** Commits of the default branch before and after the change. */
  base: z.string(),
  head: z.string(),
  /** Difficulty for which it was selected. */
  difficulty: Difficulty,
  features: Features,
})
export type CandidateFacts = z.infer<typeof CandidateFacts>

/** Everything known about a task in progress. Plain data, so that any worker can continue. */
export type CandidateState = {
  /** Random, so that it reveals nothing about the pull request. */
  taskId: string
  candidate: CandidateFacts
  generation: Generation
  /** Output of each passed stage. */
  outputs: Partial<Record<StageName, Json>>
  /** Instruction edited by a person. Takes precedence over that of the author model. */
  edited: string | null
  /** Set after assembly. `digest` covers all files, `executableDigest` all files except the instruction. */
  files: { digest: string; executableDigest: string } | null
}

/** A resource that a stage needs. `author` and `verifier` are models, the others sandbox providers. Each has a credential. */
export type Need = 'sandbox' | 'harbor' | 'author' | 'verifier'

/** Result of a passed stage. */
export type StageDone = {
  /** Output for later stages, without anything that can be read from the mirror again. */
  output: Json
  /** Evidence that is shown to people. */
  evidence: Json
  /** Warnings for the person who decides on the task. */
  concerns?: string[] | undefined
  title?: string | undefined
  difficulty?: Difficulty | undefined
}

export type Stage = {
  /** Increment it with every change of the stage. Cached results of other versions are not used. */
  version: number
  /** A job waits for free slots of all of these. At most one of them is a sandbox provider. */
  needs: readonly Need[]
  /** Memory of its jobs. Default: that of generated tasks. Only for stages with a sandbox. */
  memoryMb?: number
  /** Cache key: everything that the result depends on. */
  cacheInputs(state: CandidateState): Json
  /**
   * Runs the stage, after a crash again from the beginning. Throws SandboxUnavailable if the sandbox broke. Any other
   * error is a bug: the stage is retried a few times, then the task is rejected.
   */
  run(state: CandidateState, context: StageContext, signal: AbortSignal): Promise<StageResult<StageDone>>
}

/** Implementations of the stages. The rest of the pipeline only manages rows and jobs. */
export type Stages = Record<StageName, Stage>

/** A mirror that contains both commits of the candidate. File contents are fetched on demand. */
export type StageRepository = SubmoduleObjects & {
  fetchBlobs(ids: readonly string[], signal: AbortSignal): Promise<void>
  /** `owner/name` and host of the original repository, which an instruction must not mention. */
  upstream: readonly string[]
}

/** Stored recipes of a repository by key. The first value of a key is kept. */
export type KnownRecipes = {
  find(key: string): Promise<Json | undefined>
  save(key: string, recipe: Json): Promise<void>
}

export type StageContext = {
  workspaceId: string
  /** Empty folder of this run. It is deleted afterwards. */
  folder: string
  /** Empty folder that becomes the task. Only for the assembly stage. */
  target: string
  repository(): Promise<StageRepository>
  /** Sandbox provider of the batch. Only if the stage needs one. */
  provider(): SandboxProvider
  /**
   * Opens a model within these limits and the remaining budget of the batch. Requires the need. Its cost counts for
   * this task.
   */
  model(role: 'author' | 'verifier', limits: ModelLimits): Promise<StageModel>
  /** Recipes of a model that worked for earlier candidates of the same repository. */
  recipes: KnownRecipes
  /** Hosts in private networks whose registries tasks may use. */
  buildHosts: readonly AllowedHost[]
  /** Folder with the files of the task. Only after assembly. */
  files(): Promise<string>
}

/** Returns the next stage, or undefined after the last one. */
export const stageAfter = (stage: StageName): StageName | undefined => STAGES[STAGES.indexOf(stage) + 1]

export const isStage = (name: unknown): name is StageName => STAGES.some((stage) => stage === name)

const ORDER: readonly string[] = STAGES

/** Returns true if a task has passed a stage; `next` is its next stage, or null if it is ready. */
export const hasPassed = (next: string | null, stage: StageName): boolean =>
  next === null || ORDER.indexOf(next) > ORDER.indexOf(stage)

/**
 * Points between two consecutive writes of a discovery or a stage, in order. Crash tests kill the process at each of
 * them.
 */
export const BATCH_STEPS = [
  'discover.claimed',
  'discover.scanned',
  'discover.inserted',
  'discover.finished',
  'stage.claimed',
  'stage.read',
  'stage.granted',
  'stage.ran',
  'stage.closed',
  'stage.settled',
  'stage.finished',
] as const

/** Called when a step is reached. */
export type OnBatchStep = (step: (typeof BATCH_STEPS)[number]) => void

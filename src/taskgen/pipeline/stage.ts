import { z } from 'zod'
import type { Json } from '../../harnesses/json.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import type { AllowedHost } from '../../platform/outbound/allowed-hosts.ts'
import type { SandboxProvider } from '../../sandboxes/sandbox.ts'
import { Features } from '../candidates/screen-diff.ts'
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
  /** Once it is assembled: the digest of the task, and one of all its files but the instruction. */
  files: { digest: string; ground: string } | null
}

/** `author` and `verifier` are models; the others are places for sandboxes, with a credential each. */
export type Need = 'sandbox' | 'harbor' | 'author' | 'verifier'

export type StageDone = {
  /** Output for later stages. Contains only what cannot be read from the mirror again. */
  made: Json
  /** For people. */
  evidence: Json
  /** Concerns for the reviewer. */
  concerns?: string[] | undefined
  title?: string | undefined
  difficulty?: Difficulty | undefined
}

export type Stage = {
  /** Increment it with every change of the stage. Cached results of other versions are not used. */
  version: number
  /** A job waits for free slots of all of these. At most one of them is a place for sandboxes. */
  needs: readonly Need[]
  /** Memory of its jobs. Defaults to that of a trial without limits. Only for stages with a sandbox. */
  memoryMb?: number
  /** Cache key: everything that the result depends on. */
  cacheInputs(state: CandidateState): Json
  /**
   * Throws SandboxUnavailable where the sandbox broke. Asked again after a crash, from its beginning. What is thrown
   * besides is a bug: it is tried a few times, and then rejects the task.
   */
  run(state: CandidateState, context: StageContext, signal: AbortSignal): Promise<StageResult<StageDone>>
}

/** The seam between bookkeeping and work. Everything in front of it is rows and jobs. */
export type Stages = Record<StageName, Stage>

/** A mirror that contains both commits of the candidate. File contents are fetched on demand. */
export type StageRepository = {
  place: GitLocation
  fetchBlobs(ids: readonly string[], signal: AbortSignal): Promise<void>
  /** Names by which its code is found elsewhere. */
  upstream: readonly string[]
}

/** Values of a repository by a key, as the database keeps them. The first value of a key stays. */
export type KnownRecipes = {
  find(key: string): Promise<Json | undefined>
  save(key: string, recipe: Json): Promise<void>
}

export type StageContext = {
  /** A folder for this run alone. It is empty, and gone afterwards. */
  folder: string
  /** Only the assembling stage: an empty folder that becomes the task. */
  target: string
  repository(): Promise<StageRepository>
  /** Only with such a need: the one that was chosen for it. */
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
  /** After assembling: a folder with the files of the task. */
  files(): Promise<string>
}

/** Returns the next stage, or undefined after the last one. */
export const stageAfter = (stage: StageName): StageName | undefined => STAGES[STAGES.indexOf(stage) + 1]

export const isStage = (name: unknown): name is StageName => STAGES.some((stage) => stage === name)

const ORDER: readonly string[] = STAGES

/** True if a task has passed a stage; `next` is its next stage, or null if it is ready. */
export const hasPassed = (next: string | null, stage: StageName): boolean =>
  next === null || ORDER.indexOf(next) > ORDER.indexOf(stage)

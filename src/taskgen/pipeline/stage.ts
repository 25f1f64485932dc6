import { z } from 'zod'
import type { GitLocation } from '../../platform/git/settings.ts'
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
/** The first that looks at the instruction. A person who changes it sends the task back to here. */
export const FIRST_REVIEWED_STAGE: StageName = 'lint'

export type Json = string | number | boolean | null | Json[] | { [name: string]: Json }

/** A selected pull request. Its texts are untrusted and truncated. */
export const CandidateFacts = z.object({
  number: z.number().nullable(),
  title: z.string(),
  body: z.string(),
  /** Linked issues. Empty for candidates selected before issues were stored. */
  issues: z.array(z.object({ title: z.string(), body: z.string() })).default([]),
  mergedAt: z.string(),
  /** Commits, both of the default branch. What is between them is the change. */
  base: z.string(),
  head: z.string(),
  /** Difficulty for which it was selected. */
  difficulty: Difficulty,
  features: Features,
})
export type CandidateFacts = z.infer<typeof CandidateFacts>

/** Everything known about a task in progress. Plain data, so that any worker can continue. */
export type CandidateState = {
  /** Random, so that it tells nothing. */
  taskId: string
  candidate: CandidateFacts
  generation: Generation
  /** Output of each passed stage. */
  made: Partial<Record<StageName, Json>>
  /** The instruction as a person has changed it. It goes before that of the author model. */
  edited: string | null
  /** Once it is assembled: the digest of the task, and one of all its files but the instruction. */
  files: { digest: string; ground: string } | null
}

/** `author` and `verifier` are models; the others are places for sandboxes, with a credential each. */
export type Need = 'sandbox' | 'harbor' | 'author' | 'verifier'

export type StageDone = {
  /** For the stages that follow, and no more than they need: what can be had from the mirror again is left there. */
  made: Json
  /** For people. */
  evidence: Json
  /** Concerns for the reviewer. */
  concerns?: string[] | undefined
  title?: string | undefined
  difficulty?: Difficulty | undefined
}

export type Stage = {
  /** Raised with every change of what it does: results of another version are not taken over. */
  version: number
  /** A job waits for free slots of all of these. At most one of them is a place for sandboxes. */
  needs: readonly Need[]
  /** Memory of its jobs. Default: that of a trial without limits. Only for stages with a sandbox. */
  memoryMb?: number
  /** Cache key: everything that the result depends on. */
  reads(making: CandidateState): Json
  /**
   * Throws SandboxUnavailable where the sandbox broke. Asked again after a crash, from its beginning. What is thrown
   * besides is a bug: it is tried a few times, and then rejects the task.
   */
  run(making: CandidateState, tools: StageContext, signal: AbortSignal): Promise<StageResult<StageDone>>
}

/** The seam between bookkeeping and work. Everything in front of it is rows and jobs. */
export type Stages = Record<StageName, Stage>

/** A mirror in which both commits of the candidate are. Trees are there, files come when they are asked for. */
export type StageRepository = {
  place: GitLocation
  fetchBlobs(ids: readonly string[], signal: AbortSignal): Promise<void>
  /** Names by which its code is found elsewhere. */
  upstream: readonly string[]
}

export type StageContext = {
  /** A folder for this run alone. It is empty, and gone afterwards. */
  folder: string
  /** Only the assembling stage: an empty folder that becomes the task. */
  target: string
  repository(): Promise<StageRepository>
  /** Only with such a need: the one that was chosen for it. */
  provider(): SandboxProvider
  /** Only with such a need, and within these limits and what is left of the batch's own budget. What it costs counts for this task. */
  model(role: 'author' | 'verifier', limits: ModelLimits): Promise<StageModel>
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

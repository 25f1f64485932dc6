import { z } from 'zod'
import type { GitPlace } from '../../platform/git/settings.ts'
import type { Provider } from '../../sandboxes/sandbox.ts'
import { Features } from '../candidates/screen-diff.ts'
import type { Model, ModelLimits } from '../models/stage-model.ts'
import { Difficulty, type Generation } from '../schema.ts'
import type { StageResult } from '../stage-result.ts'

/** What a candidate goes through until it is ready, in this order. Each is called as what it has made of it. */
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
export const ASSEMBLING: StageName = 'assembly'
/** The first that looks at the instruction. A person who changes it sends the task back to here. */
export const JUDGING: StageName = 'lint'

export type Json = string | number | boolean | null | Json[] | { [name: string]: Json }

/** A pull request that was chosen. Text in it is a stranger's, cut where it never ends. */
export const CandidateFacts = z.object({
  number: z.number().nullable(),
  title: z.string(),
  body: z.string(),
  /** What it was to bring about, as others had asked for it. Those that were chosen before this was kept have none. */
  issues: z.array(z.object({ title: z.string(), body: z.string() })).default([]),
  mergedAt: z.string(),
  /** Commits, both of the default branch. What is between them is the change. */
  base: z.string(),
  head: z.string(),
  /** What it was chosen as. */
  difficulty: Difficulty,
  features: Features,
})
export type CandidateFacts = z.infer<typeof CandidateFacts>

/** All that is known of a task while it is made. Plain data: any worker can go on with it. */
export type Making = {
  /** Random, so that it tells nothing. */
  taskId: string
  candidate: CandidateFacts
  generation: Generation
  /** What each stage has returned as `made`. */
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
  /** What a person should look at before approving. None: nothing. */
  concerns?: string[]
  title?: string
  difficulty?: Difficulty
}

export type Stage = {
  /** Raised with every change of what it does: results of another version are not taken over. */
  version: number
  /** A job waits for free slots of all of these. At most one of them is a place for sandboxes. */
  needs: readonly Need[]
  /** What its jobs take of their host. Default: as a trial that says nothing. Only where there are sandboxes. */
  memoryMb?: number
  /** All that its result depends on. The same again is not done again. */
  reads(making: Making): Json
  /**
   * Throws SandboxUnavailable where the sandbox broke. Asked again after a crash, from its beginning. What is thrown
   * besides is a bug: it is tried a few times, and then rejects the task.
   */
  run(making: Making, tools: StageTools, signal: AbortSignal): Promise<StageResult<StageDone>>
}

/** The seam between bookkeeping and work. Everything in front of it is rows and jobs. */
export type Stages = Record<StageName, Stage>

/** A mirror in which both commits of the candidate are. Trees are there, files come when they are asked for. */
export type StageRepository = {
  place: GitPlace
  fetchBlobs(ids: readonly string[], signal: AbortSignal): Promise<void>
  /** Names by which its code is found elsewhere. */
  upstream: readonly string[]
}

export type StageTools = {
  /** A folder for this run alone. It is empty, and gone afterwards. */
  folder: string
  /** Only the assembling stage: an empty folder that becomes the task. */
  target: string
  repository(): Promise<StageRepository>
  /** Only with such a need: the one that was chosen for it. */
  provider(): Provider
  /** Only with such a need, and within these limits and what is left of the batch's own budget. What it costs counts for this task. */
  model(role: 'author' | 'verifier', limits: ModelLimits): Promise<Model>
  /** After assembling: a folder with the files of the task. */
  files(): Promise<string>
}

/** What comes after a stage. Undefined: it is ready. */
export const stageAfter = (stage: StageName): StageName | undefined => STAGES[STAGES.indexOf(stage) + 1]

export const isStage = (name: unknown): name is StageName => STAGES.some((stage) => stage === name)

const ORDER: readonly string[] = STAGES

/** Whether a task has passed a stage, by what comes next. Null: nothing does any more. */
export const passedBy = (next: string | null, stage: StageName): boolean =>
  next === null || ORDER.indexOf(next) > ORDER.indexOf(stage)

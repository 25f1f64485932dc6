import { z } from 'zod'
import type { Json } from '../../../harnesses/json.ts'
import type { CandidateState } from '../stage.ts'

/** Stored outputs of stages. Everything else is read again from the mirror. */

const strings = z.array(z.string())
const texts = z.record(z.string(), z.string())

export const StoredRecipe = z.object({
  base: z.string(),
  aptPackages: strings,
  env: texts,
  toolchain: strings.default([]),
  manifests: strings,
  setup: strings,
  build: strings,
  runner: z.string(),
})

const Plan = z.object({ runner: z.string(), prepare: strings, targets: strings, timeoutSec: z.number() })

const Environment = z.object({ recipe: StoredRecipe, plan: Plan })

const Survivor = z.object({
  kind: z.enum(['part', 'mutant']),
  path: z.string(),
  line: z.number(),
  before: z.string(),
  after: z.string(),
})

const Executed = z.object({
  lists: z.object({ failToPass: strings, passToPass: strings, guards: strings.default([]) }),
  plan: Plan,
  messages: texts,
  failsByAssertion: z.boolean(),
  buildErrors: strings.default([]),
  newTests: strings.default([]),
  survivors: z.array(Survivor).default([]),
  /** Runs with the fix and the real clock. All of them passed. */
  fixedRuns: z.number().default(0),
})

const Pinned = z.object({
  kind: z.enum(['name', 'literal', 'path']),
  text: z.string(),
  signature: z.string().nullable(),
})
const Authored = z.object({ title: z.string(), markdown: z.string(), pinned: z.array(Pinned), author: z.string() })

const Verified = z.object({ minutes: z.array(z.number()) })

export const parseEnvironment = ({ outputs }: CandidateState) => Environment.parse(outputs.environment)
export const parseExecution = ({ outputs }: CandidateState) => Executed.parse(outputs.execution)
export const parseInstruction = ({ outputs }: CandidateState) => Authored.parse(outputs.authoring)
export const parseReview = ({ outputs }: CandidateState) => Verified.parse(outputs.review)

/** Returns the text that agents receive. An instruction edited by a person takes precedence over that of the model. */
export const instructionText = (state: CandidateState): string => state.edited ?? parseInstruction(state).markdown

/** Converts to plain JSON as it will be stored. */
export const toJson = (value: object): Json => JSON.parse(JSON.stringify(value))

import { z } from 'zod'
import type { Json, Making } from '../stage.ts'

/** What stages keep for those that follow. All else is read again from the mirror. */

const strings = z.array(z.string())
const texts = z.record(z.string(), z.string())

const Recipe = z.object({
  ...{ base: z.string(), aptPackages: strings, env: texts, manifests: strings, setup: strings, build: strings },
  runner: z.string(),
})

const Plan = z.object({ runner: z.string(), prepare: strings, targets: strings, timeoutSec: z.number() })

const Environment = z.object({ recipe: Recipe, plan: Plan })

const Executed = z.object({
  lists: z.object({ failToPass: strings, passToPass: strings }),
  plan: Plan,
  messages: texts,
  failsByAssertion: z.boolean(),
})

const Pinned = z.object({
  ...{ kind: z.enum(['name', 'literal', 'path']), text: z.string(), signature: z.string().nullable() },
})
const Authored = z.object({ title: z.string(), markdown: z.string(), pinned: z.array(Pinned), author: z.string() })

const Verified = z.object({ minutes: z.array(z.number()) })

export const environmentIn = ({ made }: Making) => Environment.parse(made.environment)
export const executionIn = ({ made }: Making) => Executed.parse(made.execution)
export const instructionIn = ({ made }: Making) => Authored.parse(made.authoring)
export const verdictIn = ({ made }: Making) => Verified.parse(made.review)

/** As it will be stored. What a stage keeps and shows is plain data: what is not does not get here. */
export const plain = (value: object): Json => JSON.parse(JSON.stringify(value))

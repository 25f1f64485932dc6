import type { z } from 'zod'
import type { Usage } from './shapes/schema.ts'

/** Tokens of one trial. */
export type OutcomeUsage = z.infer<typeof Usage>

/** A trial that has ended, with the conditions that it was made under. */
export type Outcome = {
  setting: string
  /** The digest of its content. */
  task: string
  /** Which trial it is: one that was used again is the same. */
  trial: string
  comparison: number
  comparedAt: number
  attempt: number
  state: 'passed' | 'failed' | 'errored'
  isVoided: boolean
  harnessVersion: string
  sandbox: string
  verifyMode: string | null
  isolation: string | null
  costMicros: number | null
  costSource: string | null
  usage: OutcomeUsage | null
}

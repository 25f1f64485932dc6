import type { z } from 'zod'
import type { Usage } from './shapes/schema.ts'

/** Tokens of one trial. */
export type OutcomeUsage = z.infer<typeof Usage>

/** Null: as much as there is. */
export type OutcomeResources = { cpus: number | null; memoryMb: number | null; diskMb: number | null }

/** One text for a trial, in whichever comparison it is used. */
export const nameOf = (comparison: number, ordinal: number): string => `${comparison}/${ordinal}`

export function keyOfName(name: string): { comparison: number; ordinal: number } {
  const [comparison, ordinal] = name.split('/').map(Number)
  return { comparison: comparison ?? 0, ordinal: ordinal ?? 0 }
}

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
  /** What its sandbox might use. Null: nobody wrote it down. */
  resources: OutcomeResources | null
}

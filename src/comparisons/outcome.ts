import type { z } from 'zod'
import type { Usage } from './shapes/schema.ts'

/** Token counts of one trial. */
export type OutcomeUsage = z.infer<typeof Usage>

/** Resource limits of a sandbox. Null means unlimited. */
export type OutcomeResources = { cpus: number | null; memoryMb: number | null; diskMb: number | null }

/** Formats the key of a trial as text. A reused trial has the key of the trial that ran. */
export const formatTrialKey = (comparison: number, ordinal: number): string => `${comparison}/${ordinal}`

export function parseTrialKey(key: string): { comparison: number; ordinal: number } {
  const [comparison, ordinal] = key.split('/').map(Number)
  return { comparison: comparison ?? 0, ordinal: ordinal ?? 0 }
}

/** A finished trial with the conditions under which it ran. */
export type TrialOutcome = {
  setting: string
  /** Digest of the task's content. */
  task: string
  /** Key of the trial that ran, see `formatTrialKey`. */
  trial: string
  comparison: number
  /** Time at which the comparison was created, in milliseconds since 1970. */
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
  /** Limits of the sandbox. Null for trials from before limits were recorded. */
  resources: OutcomeResources | null
  /** Duration of the agent phase. Null if it was not recorded. */
  agentSeconds: number | null
}

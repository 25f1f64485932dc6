import type { Exit, LimitKind } from '../sandboxes/sandbox.ts'

/** How the verifier gets to see what the agent did, from the strictest. */
export const VERIFY_MODES = ['workspace', 'snapshot', 'shared-cold'] as const
export type VerifyMode = (typeof VERIFY_MODES)[number]

export type TrialClass = 'verified' | 'agent_timeout' | 'agent_exit' | 'limit' | 'sandbox_error' | 'verifier_error'

/** Seconds. */
export type Timings = { prepare: number; agent: number; verify: number; total: number }

export type StepRecord = {
  name: string | null
  agent: Exit | null
  verifier: Exit | null
  reward: number | null
  rewards: Record<string, number>
  error: string | null
}

/** All that is known of one trial once it has ended. */
export type TrialRecord = {
  task: { name: string; digest: string }
  harness: string
  state: 'passed' | 'failed' | 'errored'
  class: TrialClass
  reward: number | null
  rewards: Record<string, number>
  /** The limit that ended the agent. */
  limit: LimitKind | null
  timings: Timings
  isolation: string
  base: 'image' | 'host-base'
  verifyMode: VerifyMode
  steps: StepRecord[]
  error: string | null
}

import type { Exit, LimitKind } from '../sandboxes/sandbox.ts'
import type { NetworkRecord } from './network.ts'

/** How the verifier gets to see what the agent did, from the strictest. */
export const VERIFY_MODES = ['grader', 'workspace', 'snapshot', 'shared-cold', 'shared-live'] as const
export type VerifyMode = (typeof VERIFY_MODES)[number]

/** The last three are not scored: neither a pass nor a failure. */
export type TrialClass =
  | 'verified'
  | 'agent_timeout'
  | 'agent_exit'
  | 'limit'
  | 'sandbox_error'
  | 'verifier_error'
  | 'operator_error'

/** Seconds. */
export type Timings = { prepare: number; agent: number; verify: number; total: number }

/** What a task has run between the agent and the verifier. It may fail: that is noted, and nothing more. */
export type HookRecord = { service: string; command: string; exit: Exit | null; error: string | null }

/** What was kept of a trial. Nothing was there when `destination` is null. */
export type ArtifactRecord = {
  source: string
  service: string
  /** In the folder with the artifacts. */
  destination: string | null
  files: number
  bytes: number
  /** Devices, pipes, links that lead out, names that are unsafe, and what was too much. */
  leftOut: string[]
  /** Why it could not be taken. */
  error: string | null
}

/** What the agent's sandbox may use. Null: as much as there is. */
export type TrialResources = { cpus: number | null; memoryMb: number | null; diskMb: number | null }

/** How a service beside the agent's ended. Null: it lived until the trial was over. */
export type SidecarRecord = { name: string; exit: Exit | null }

export type StepRecord = {
  name: string | null
  agent: Exit | null
  verifier: Exit | null
  reward: number | null
  rewards: Record<string, number>
  error: string | null
  /** Paths outside the working directory that reached the tests in mode snapshot. */
  carried: string[]
  /** What the agent left that stood in the way, and what was done without it. */
  notes: string[]
  /** What each phase could reach beyond its sandbox and the services of its task. */
  network: { agent: NetworkRecord; verifier: NetworkRecord }
  hooks: HookRecord[]
  artifacts: ArtifactRecord[]
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
  /** Null: it never came to a sandbox. */
  resources: TrialResources | null
  verifyMode: VerifyMode
  steps: StepRecord[]
  sidecars: SidecarRecord[]
  error: string | null
}

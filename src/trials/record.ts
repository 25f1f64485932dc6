import type { Exit, LimitKind } from '../sandboxes/sandbox.ts'
import type { NetworkRecord } from './network.ts'

/** Verify modes, from the strictest to the weakest. */
export const VERIFY_MODES = ['grader', 'workspace', 'snapshot', 'shared-cold', 'shared-live'] as const
export type VerifyMode = (typeof VERIFY_MODES)[number]

/** How a trial ended. The last three are not scored. */
export type OutcomeClass =
  | 'verified'
  | 'agent_timeout'
  | 'agent_exit'
  | 'limit'
  | 'sandbox_error'
  | 'verifier_error'
  | 'operator_error'

/** Durations in seconds. */
export type TrialTimings = { prepare: number; agent: number; verify: number; total: number }

/** A hook that ran between the agent and the verifier. Failures are only recorded. */
export type HookRecord = { service: string; command: string; exit: Exit | null; error: string | null }

/** A stored artifact. `destination` is null if nothing was found. */
export type ArtifactRecord = {
  source: string
  service: string
  /** Path in the folder of artifacts. */
  destination: string | null
  files: number
  bytes: number
  /** Devices, pipes, links that lead out, unsafe names, and files beyond the limits. */
  leftOut: string[]
  /** Why it could not be collected. */
  error: string | null
}

/** Limits of the agent's sandbox. Null: unlimited. */
export type TrialLimits = { cpus: number | null; memoryMb: number | null; diskMb: number | null }

/** How a sidecar ended. `exit` is null if it ran until the end of the trial. */
export type SidecarRecord = { name: string; exit: Exit | null }

export type StepRecord = {
  name: string | null
  agent: Exit | null
  verifier: Exit | null
  /** Null without a verdict. */
  reward: number | null
  rewards: Record<string, number>
  /** Why there is no verdict. Null if there is one. */
  error: string | null
  /** Names of tests that did not pass, as far as the verifier printed them. */
  failedTests?: string[] | undefined
  /** Paths that the verifier took over from the agent by name, as in `TrialRequest`. */
  carried: string[]
  /** Files or processes of the agent that prevented the regular procedure, and what was left out instead. */
  notes: string[]
  /** Files of the configuration that the agent changed. The changes were dropped. */
  droppedChanges?: string[] | undefined
  /** Network access of each phase beyond its sandbox and its sidecars. */
  network: { agent: NetworkRecord; verifier: NetworkRecord }
  hooks: HookRecord[]
  artifacts: ArtifactRecord[]
}

/** The complete result of one trial. */
export type TrialRecord = {
  task: { name: string; digest: string }
  harness: string
  state: 'passed' | 'failed' | 'errored'
  class: OutcomeClass
  reward: number | null
  rewards: Record<string, number>
  /** The limit that ended the agent. */
  limit: LimitKind | null
  timings: TrialTimings
  isolation: string
  base: 'image' | 'host-base'
  /** Null if no sandbox was started. */
  resources: TrialLimits | null
  verifyMode: VerifyMode
  /** Factor of the task's time limits. Absent if they were not changed. */
  timeoutMultiplier?: number | undefined
  steps: StepRecord[]
  sidecars: SidecarRecord[]
  error: string | null
}

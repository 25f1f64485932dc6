import type { AgentHandover } from '../../trials/agent-handover.ts'
import type { TrialRecord, VerifyMode } from '../../trials/record.ts'
import type { TrialModel } from '../../trials/trial-request.ts'

/** Input of a calibration: a task and the sandbox to run it in. */
export type CalibrationInput = {
  task: { name: string; digest: string }
  sandbox: string
  workspaceId: string
  sandboxCredentialId: string
  /** Existing folder for output files. */
  outputFolder: string
}

/** Settings for verifying a task. A network is `required` if the task declares none and its reference solution needs one. */
export type VerifySettings = {
  mode: VerifyMode
  agentNetwork: VerifyNetwork
  verifierNetwork: VerifyNetwork
  /** Paths that the verifier takes over from the agent by name, as in `TrialRequest`. */
  carried: string[]
}
type VerifyNetwork = 'declared' | 'required'

export type TrialRunRequest = CalibrationInput & {
  harness: string
  harnessVersion: string
  credentialId: string
  verifySettings: VerifySettings
  /** Digest of the configuration's content. */
  configurationDigest: string | null
  /** Null if the time limits are unchanged. */
  timeoutMultiplier?: number | null | undefined
  /** Set if the harness calls a model. */
  model?: TrialModel | undefined
  /** Set if another worker may continue the agent. */
  handover?: AgentHandover | undefined
}

export type CalibrationResult =
  | (VerifySettings & { kind: 'fit' })
  /** Trials of this task in this sandbox would be meaningless. */
  | { kind: 'unfit'; reason: string }
  /** The sandbox failed, which says nothing about the task. */
  | { kind: 'broken'; error: string }

/**
 * Runs calibrations and trials. Both methods throw SandboxUnavailable if nothing can run, and CredentialGone if a
 * credential no longer exists. Tests and benchmarks replace the engine to measure the bookkeeping around it.
 */
export type TrialEngine = {
  /** Finds the strictest verify mode in which the reference solution passes and a no-op does not. */
  calibrate(request: CalibrationInput, signal: AbortSignal): Promise<CalibrationResult>
  run(request: TrialRunRequest, signal: AbortSignal): Promise<TrialRecord>
}

/** Thrown when a credential of the comparison no longer exists. */
export class CredentialGone extends Error {
  override name = 'CredentialGone'
}

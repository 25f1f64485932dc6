import type { ModelPlace } from '../../trials/bench.ts'
import type { TrialRecord, VerifyMode } from '../../trials/record.ts'

/** All that is needed to find out how a task is verified in a sandbox. */
export type TaskOrder = {
  task: { name: string; digest: string }
  sandbox: string
  workspaceId: string
  sandboxCredentialId: string
  /** Output is written here, a file each. It exists. */
  outputFolder: string
}

/** How a task is verified. A network is `required` where the task says nothing and its own solution needs one. */
export type Verifying = {
  mode: VerifyMode
  agentNetwork: Need
  verifierNetwork: Need
  /** Paths outside the working directory that the reference solution changed. Mode snapshot carries no others. */
  carried: string[]
}
type Need = 'declared' | 'required'

/** All that is needed to run one trial. */
export type TrialOrder = TaskOrder & {
  harness: string
  harnessVersion: string
  credentialId: string
  verifying: Verifying
  /** For a harness that asks one. */
  model?: ModelPlace
}

export type Calibrated =
  | (Verifying & { kind: 'fit' })
  /** No trial of this task in this sandbox would mean anything. */
  | { kind: 'unfit'; reason: string }
  /** A sandbox broke while it was tried: that says nothing of the task. */
  | { kind: 'broken'; error: string }

export type Watch = { signal: AbortSignal }

/** Runs trials. Everything in front of it is bookkeeping; another one shows what that costs. */
export type Engine = {
  /** The strictest verify mode in which the author's solution passes and doing nothing does not. */
  calibrate(order: TaskOrder, watch: Watch): Promise<Calibrated>
  /** Both throw SandboxUnavailable where nothing can be run at all, and CredentialGone. */
  run(order: TrialOrder, watch: Watch): Promise<TrialRecord>
}

/** A credential that the comparison names is not there any more, or was refused. */
export class CredentialGone extends Error {
  override name = 'CredentialGone'
}

import type { Task } from '../harbor/task.ts'
import type { Harness } from '../harnesses/harness.ts'
import type { Exit, Sandbox, SandboxSpec } from '../sandboxes/sandbox.ts'
import type { VerifyMode } from './record.ts'
import type { Variables } from './variables.ts'

export type TrialRequest = {
  task: Task
  digest: string
  /** The task's own folder. It is only read. */
  folder: string
  harness: Harness
  verifyMode: VerifyMode
  variables: Variables
  signal: AbortSignal
  onPhase: (phase: 'prepare' | 'agent' | 'verify', step: string | null) => void
  /** Output of the build, the agent and the verifier is kept here, a file each. */
  outputFolder: string
}

type PhaseSpec = Omit<SandboxSpec, 'id' | 'network' | 'gateway' | 'outputFile'>

/** What the phases of one trial share. */
export type Bench = {
  request: TrialRequest
  /** Of this step, for whatever it mounts. */
  folder: string
  run(phase: string, spec: PhaseSpec): Promise<{ exit: Exit; sandbox: Sandbox }>
  /** Removal costs time that nobody needs to wait for. */
  removeLater(sandbox: Sandbox): void
}

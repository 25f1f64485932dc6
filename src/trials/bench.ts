import type { Network, Task } from '../harbor/task.ts'
import type { InstallOptions } from '../harnesses/bundles/install.ts'
import type { AskModel } from '../harnesses/conversation.ts'
import type { Harness } from '../harnesses/harness.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import type { EgressOptions } from '../sandboxes/egress/egress.ts'
import type {
  BuildLimits,
  Image,
  ImageSource,
  Mount,
  Port,
  Sandbox,
  SandboxNetwork,
  SandboxSpec,
} from '../sandboxes/sandbox.ts'
import type { PhaseNetwork } from './network.ts'
import type { VerifyMode } from './record.ts'
import type { Variables } from './variables.ts'

export type TrialRequest = {
  task: Task
  digest: string
  /** The task's own folder. It is only read. */
  folder: string
  harness: Harness
  /** For a harness that asks one. */
  model?: ModelPlace
  /** Where the programs of harnesses are installed. */
  bundles?: Pick<InstallOptions, 'folder' | 'openUploaded'> & { onProgress?: InstallOptions['onProgress'] }
  verifyMode: VerifyMode
  /** Paths outside the working directory that the reference solution changed. Mode snapshot carries nothing else. */
  carried?: readonly string[]
  variables: Variables
  signal: AbortSignal
  onPhase: (phase: 'prepare' | 'agent' | 'verify', step: string | null) => void
  /** What building an image says, as it comes. */
  onLog?: (line: string) => void
  /** Where the task declares no network and its own solution needs one. */
  networks?: { agent?: Network; verifier?: Network }
  /** The task is known to work here in this mode: whatever goes wrong after the agent is the agent's doing. */
  isProven?: boolean
  /** What an agent changes in the working folder is kept as a patch, which takes a second sandbox. */
  keepsPatch?: boolean
  /** Has a look at what the verifier wrote, before it is gone. Whatever was tested may have written there too. */
  onVerified?: (folder: string) => Promise<void>
  /** Limits of the way out, and where it ends. */
  egress?: EgressOptions
  /** Output of the build, the agent, the verifier and the services is kept here, a file each, and the artifacts. */
  outputFolder: string
}

/** A model, and the port of the agent's sandbox behind which it is. */
export type ModelPlace = {
  access: ModelAccess
  port: Port
  /** For a harness that asks it from outside of the sandbox. */
  ask?: AskModel
  /** Why nothing that was asked could be answered, if so: a wrong key, a model that nobody knows. Such a trial is not scored. */
  fault?: () => Promise<string | undefined>
}

/** What the phases of one trial share. What is started here is killed when the trial is aborted, and removed at its end. */
export type Bench = {
  request: TrialRequest
  /** Of this step, for whatever it mounts. */
  folder: string
  /** The programs of the harness. */
  mounts: Mount[]
  /** What the agent left that stood in the way, and what was done without it. */
  notes: string[]
  /** Must be called before the first process of the agent can run. From then on the trial is scored. */
  markAgentBegun(): void
  /**
   * Attributes a failure. Once an agent has begun, it is the agent's unless an outage is proven. Undefined before that,
   * and always for the task's own harnesses: the caller then handles the error.
   */
  attribute(error: unknown): Promise<'agent' | 'outage' | undefined>
  outputFile(name: string): string
  prepare(source: ImageSource, timeoutSec: number, limits: BuildLimits): Promise<Image>
  openGroup(): Promise<SandboxNetwork>
  /** The way out that a phase may have, by what the task declares for it. The agent's has the way to its model too. */
  network(declared: Network, phase: 'agent' | 'verifier'): PhaseNetwork
  start(name: string, spec: Omit<SandboxSpec, 'id' | 'outputFile'>): Promise<Sandbox>
  /** Removal costs time that nobody needs to wait for. */
  removeLater(sandbox: Sandbox): void
}

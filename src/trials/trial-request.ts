import type { McpServer, Network, Task } from '../harbor/task.ts'
import type { InstallOptions } from '../harnesses/bundles/install.ts'
import type { AskModel } from '../harnesses/conversation.ts'
import type { Harness } from '../harnesses/harness.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import type { EgressOptions } from '../sandboxes/egress/egress.ts'
import type { Port } from '../sandboxes/sandbox.ts'
import type { AgentHandover } from './agent-handover.ts'
import type { VerifyMode } from './record.ts'
import type { TaskVariables } from './variables.ts'

export type TrialRequest = {
  task: Task
  /** Digest of the task. */
  digest: string
  /** The task's own folder. It is only read. */
  folder: string
  harness: Harness
  /** Required by harnesses that call a model. */
  model?: TrialModel | undefined
  /** Folder in which harness bundles are installed. Required by harnesses that have a bundle. */
  bundles?:
    | (Pick<InstallOptions, 'folder' | 'openUploaded'> & { onProgress?: InstallOptions['onProgress'] })
    | undefined
  /** Additions of a workspace to the agent. */
  configuration?: AgentConfiguration | undefined
  /** Multiplies the task's time limits. 1 if undefined. */
  timeoutMultiplier?: number | undefined
  verifyMode: VerifyMode
  /**
   * Paths that the reference solution changed and that the verifier therefore takes over from the agent by name. In mode
   * `snapshot`: paths outside the working directory. If the working directory is a system folder: all paths. In each of
   * the modes `grader`, `workspace` and `snapshot`: startup files too.
   */
  carried?: readonly string[] | undefined
  /** Values for the variables that the files of the task name. */
  variables: TaskVariables
  signal: AbortSignal
  onPhase: (phase: 'prepare' | 'agent' | 'verify', step: string | null) => void
  /** Receives the output of image builds line by line. */
  onLog?: ((line: string) => void) | undefined
  /** Networks for phases that declare none although the reference solution needs one. */
  networks?: { agent?: Network | undefined; verifier?: Network | undefined } | undefined
  /** The task is known to work here in this mode, so failures after the agent's start are attributed to the agent. */
  isProven?: boolean | undefined
  /** Exit code by which a cheat declares that it does not apply. Its step scores 0 and is not verified. */
  notApplicableCode?: number | undefined
  /** Writes the agent's changes to the working directory as a patch. Needs a second sandbox. */
  savesPatch?: boolean | undefined
  /** Workspace of the trial, whose archives leave threads to other workspaces. Undefined without a service. */
  workspaceId?: string | undefined
  /** Called with the verifier's output folder before it is removed. Tested code may have written there too. */
  onVerified?: ((folder: string) => Promise<void>) | undefined
  egress?: EgressOptions | undefined
  /** Set if an agent may continue when the process that runs its trial dies. */
  handover?: AgentHandover | undefined
  /** Receives one log file per build, agent, verifier and service, and the artifacts. */
  outputFolder: string
}

/** A file that is in the working directory while the agent works. `path` is relative and has been validated. */
export type ConfigurationFile = { path: string; text: string; executable: boolean }

/** Additions of a workspace to an agent. The verifier never sees them. */
export type AgentConfiguration = {
  files: readonly ConfigurationFile[]
  instructionPrefix: string
  instructionSuffix: string
  mcpServers: readonly McpServer[]
  /** Additional arguments of the harness's program. */
  arguments: readonly string[]
}

/** A model and the port of the agent's sandbox at which it is reachable. */
export type TrialModel = {
  access: ModelAccess
  port: Port
  /** Calls the model for harnesses that run outside the sandbox. */
  ask?: AskModel | undefined
}

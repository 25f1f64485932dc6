import { stat } from 'node:fs/promises'
import type { Server } from 'node:net'
import { join } from 'node:path'
import type { UserAccount } from '../kernel/accounts.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import type { ProcessMark } from '../kernel/ownership.ts'
import { STANDARD_PATH } from '../kernel/shell.ts'
import type { Image, Mount, SandboxSpec } from '../sandbox.ts'
import type { ControlShell } from './control.ts'
import type { SandboxFiles } from './files.ts'
import type { Host } from './machine.ts'
import { type LocalNetwork, leaveNetwork } from './network.ts'
import type { CommandOutput } from './process-io.ts'
import type { SandboxRecord } from './record.ts'

/** Inputs of a runtime that runs one command on mounted files. */
export type LaunchPlan = {
  host: Host
  /** Process that keeps the namespaces of the sandbox open. */
  namespaceProcess: NamespaceProcess
  spec: SandboxSpec
  /** Paths on this machine: the root of the sandbox's file system, and the folder of its control files. */
  root: string
  folder: string
  account: UserAccount
  command: string[]
  workdir: string
  env: Record<string, string>
  cgroups: string[]
  launcherFiles: { source: string; target: string }[]
  /** Folders of this machine that are mounted as parts of the image. */
  binds: string[]
  hostname: string
  mounts: LaunchMount[]
}

export type LaunchMount = Exclude<Mount, { kind: 'volume' }>

export type LaunchedSandbox = {
  /** First process of the sandbox's PID namespace. When it ends, the kernel kills all others. */
  init: ProcessMark
  /** Starts the command, once the sandbox's ports are open. */
  begin(): Promise<void>
  ended: Promise<LaunchEnd>
}

type LaunchEnd = {
  /** Exit code. Undefined if the runtime reported none or an invalid one. */
  code: number | undefined
  /** Error output of the runtime. */
  errorOutput: string
  /** True once the first process of the sandbox has run. From then on, every failure is attributed to the command. */
  hasStarted: boolean
}

/** Timeout for the start of a runtime, which usually takes milliseconds, or seconds on an overloaded machine. */
export const START_TIMEOUT_MS = 60_000

/** Name of the file that the sandbox's first process writes when it starts. */
export const STARTED_FILE = 'started'

export const hasStarted = async (folder: string): Promise<boolean> =>
  (await stat(join(folder, STARTED_FILE)).catch(() => ({ size: 0 }))).size > 0

/** Returns true if commands can be started in the sandbox later, through a control shell. */
export const hasControl = ({ usesExec, command }: SandboxSpec): boolean => usesExec || command === null

/** Upper bound for the processes of the control shell: itself, and one per command that it has started. */
const CONTROL_PROCESSES = 8

export const countControlProcesses = (spec: SandboxSpec): number => (hasControl(spec) ? CONTROL_PROCESSES : 0)

/** Builds the environment variables. Variables of the sandbox override those of the image, which override the defaults. */
export function buildEnvironmentVariables(
  image: Image,
  account: UserAccount,
  env: Record<string, string>,
): Record<string, string> {
  return {
    PATH: STANDARD_PATH,
    HOME: account.home,
    ...image.env,
    ...env,
  }
}

/** Resources of a sandbox that have been created so far and must be released. */
export type SandboxResources = {
  record: SandboxRecord
  files: SandboxFiles
  namespaceProcess: NamespaceProcess | undefined
  /** Servers on ports of the sandbox. */
  servers: Server[]
  control: ControlShell | undefined
  membership: Membership | undefined
}

/** Membership of a sandbox in a network. */
type Membership = { network: LocalNetwork; address: string }

export type LocalRunningSandbox = {
  host: Host
  spec: SandboxSpec
  resources: SandboxResources
  namespaceProcess: NamespaceProcess
  launched: LaunchedSandbox
  output: CommandOutput
}

/** Releases resources that only a running sandbox needs. */
export async function release({ servers, control, membership }: SandboxResources): Promise<void> {
  for (const server of servers) server.close()
  control?.close()
  // The sandbox network may already be removed.
  if (membership) await leaveNetwork(membership.network, membership.address).catch(() => {})
}

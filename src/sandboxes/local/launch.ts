import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { UserAccount } from '../kernel/accounts.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import type { ProcessMark } from '../kernel/process-life.ts'
import type { Image, Mount, SandboxSpec } from '../sandbox.ts'
import type { Host } from './machine.ts'

/** Inputs of a runtime that runs one command on mounted files. */
export type Launch = {
  host: Host
  holder: NamespaceProcess
  spec: SandboxSpec
  /** The sandbox's root and its own folder, on this machine. */
  root: string
  folder: string
  account: UserAccount
  command: string[]
  workdir: string
  env: Record<string, string>
  cgroups: string[]
  launcherFiles: { source: string; target: string }[]
  /** Folders of this machine that its image is made of. */
  binds: string[]
  hostname: string
  mounts: LaunchMount[]
}

export type LaunchMount = Exclude<Mount, { kind: 'volume' }>

export type Launched = {
  /** The first process of the sandbox's process namespace: when it is dead, all are. */
  init: ProcessMark
  /** Lets the command begin, when there are ports to wait for. */
  begin(): Promise<void>
  ended: Promise<LaunchEnd>
}

type LaunchEnd = {
  /** Undefined when the runtime reported none, or none that a process can have. */
  code: number | undefined
  complaint: string
  /** True once the first process of the sandbox has run. From then on, every failure is attributed to the command. */
  hasStarted: boolean
}

/** Runtimes start in milliseconds, and in seconds on a machine that is overloaded. */
export const START_MS = 60_000

/** File of the sandbox's folder that its first process writes to when it begins. */
export const STARTED_FILE = 'started'

export const hasStarted = async (folder: string): Promise<boolean> =>
  (await stat(join(folder, STARTED_FILE)).catch(() => ({ size: 0 }))).size > 0

export const hasControl = ({ execs, command }: SandboxSpec): boolean => execs || command === null

/** The control shell, and one beside each command that it started. */
const CONTROL_PROCESSES = 8

export const controlProcesses = (spec: SandboxSpec): number => (hasControl(spec) ? CONTROL_PROCESSES : 0)

/** Written over by what the image says, and that by the sandbox's own. */
export function environmentOf(image: Image, account: UserAccount, env: Record<string, string>): Record<string, string> {
  return {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: account.home,
    ...image.env,
    ...env,
  }
}

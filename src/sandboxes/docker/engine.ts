import type { Log } from '../../platform/log.ts'
import type { Place } from '../egress/rules.ts'
import type { AccountFiles } from '../kernel/accounts.ts'
import type { CgroupLayout } from '../kernel/cgroup.ts'
import type { Capabilities } from '../sandbox.ts'
import type { Docker } from './client.ts'
import { LABEL, type Role } from './labels.ts'
import type { Launcher } from './launcher.ts'

/** A Docker engine that we know our way around, found out once. */
export type Engine = {
  docker: Docker
  log: Log
  /** Whose things they are: several servers may use one engine. */
  installation: string
  /** Of ours, on this machine. */
  folder: string
  owner: string
  isolation: string
  cpus: number
  memoryBytes: number
  launcher: Launcher | undefined
  /** Whether folders of this machine can be shown to its containers. */
  onThisMachine: boolean
  /** Whether a container's process numbers are those that we see. Its counters and namespaces can be found then. */
  seesProcesses: boolean
  /** And whether we may enter them, and read its files. */
  isRoot: boolean
  cgroups: CgroupLayout | undefined
  /** What builds may reach besides public places. */
  buildHosts: readonly Place[]
  gatewayChannel: Capabilities['gatewayChannel']
  /** Derived images that are being made, or were. */
  images: Map<string, Promise<string>>
  /** Account files of images, by digest. */
  accounts: Map<string, Promise<AccountFiles>>
}

/** Names of containers, networks and volumes are unique in an engine. */
export const nameOf = ({ installation }: Engine, ...parts: string[]): string =>
  ['assay', installation, ...parts].join('-')

export const labelsOf = (
  { installation, owner }: Engine,
  role: Role,
  own: Record<string, string> = {},
): Record<string, string> => ({
  [LABEL.installation]: installation,
  [LABEL.owner]: owner,
  [LABEL.role]: role,
  ...own,
})

/** Tests end the engine's client at each of these steps. */
export const tell = ({ log }: Engine, id: string, step: string): void => log.debug({ sandbox: id, step }, 'sandbox')

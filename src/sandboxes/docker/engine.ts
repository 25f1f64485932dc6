import type { Log } from '../../platform/log.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import type { AccountFiles } from '../kernel/accounts.ts'
import type { CgroupLayout } from '../kernel/cgroup.ts'
import { type EngineObjectRole, LABEL } from '../kernel/ownership.ts'
import type { Capabilities } from '../sandbox.ts'
import type { Docker } from './client.ts'
import type { DockerLauncher } from './launcher.ts'

/** A Docker engine and its capabilities, detected once. */
export type DockerEngine = {
  docker: Docker
  log: Log
  /** Identifies this server's objects, because several servers may use one engine. */
  installation: string
  /** Folder on this machine for temporary files. */
  folder: string
  /** Identifies this process, so that the objects of a dead process can be found. */
  owner: string
  isolation: string
  cpus: number
  memoryBytes: number
  launcher: DockerLauncher | undefined
  /** True when folders of this machine can be mounted into containers. */
  isOnThisMachine: boolean
  /**
   * True when process ids of containers are valid on this machine, so that their counters and namespaces can be found.
   */
  seesProcesses: boolean
  /** True when this process is root, so that it may also enter the namespaces of containers and read their files. */
  isRoot: boolean
  cgroups: CgroupLayout | undefined
  /**
   * Mapping of the users of containers to users of the engine's machine. The root of a container is the engine's own user
   * on a rootless engine, and one of a range of other users on a remapped one.
   */
  userMapping: 'none' | 'rootless' | 'remapped'
  limits: Capabilities['limits']
  /** Hosts that builds may reach besides public ones. */
  buildHosts: readonly AllowedHost[]
  /** Maximum size of all images of the engine. Built images are evicted above it. */
  imageDiskBytes: number | undefined
  gatewayChannel: Capabilities['gatewayChannel']
  /** Images that this process builds or derives from others, by their tag or the digest of their inputs. */
  images: Map<string, Promise<string>>
  /** Account files of images, by digest. */
  accounts: Map<string, Promise<AccountFiles>>
}

/** Returns the name of a container, network or volume, which must be unique in an engine. */
export const nameOf = ({ installation }: DockerEngine, ...parts: string[]): string =>
  ['assay', installation, ...parts].join('-')

export const labelsOf = (
  { installation, owner }: DockerEngine,
  role: EngineObjectRole,
  own: Record<string, string> = {},
): Record<string, string> => ({
  [LABEL.installation]: installation,
  [LABEL.owner]: owner,
  [LABEL.role]: role,
  ...own,
})

/** Logs a step of a sandbox's start or end. Tests kill the process at each of these steps. */
export const logStep = ({ log }: DockerEngine, id: string, step: string): void =>
  log.debug({ sandbox: id, step }, 'sandbox')

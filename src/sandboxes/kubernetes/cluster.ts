import { createHash } from 'node:crypto'
import type { Log } from '../../platform/log.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import type { AccountFiles } from '../kernel/accounts.ts'
import type { Kubernetes } from './client.ts'
import type { KubernetesSettings } from './connection.ts'
import type { FileListing } from './listing.ts'
import type { ImageRegistry } from './registry.ts'
import type { RegistrySettings } from './registry-settings.ts'

/** A namespace of a cluster in which sandboxes are started. */
export type Cluster = {
  kubernetes: Kubernetes
  settings: KubernetesSettings
  namespace: string
  /** Identifies this server's pods, because several servers may use one namespace. */
  installation: string
  /** Identifies this process, so that the pods of a dead process can be found. */
  owner: string
  /** Folder on this machine for temporary files. */
  folder: string
  log: Log
  /** Images that this process has prepared, by digest. */
  images: Map<string, ClusterImage>
  /** Undefined if no registry is configured, so that images cannot be built. */
  builder: ImageBuilder | undefined
}

export type ClusterImage = {
  /** Name under which the cluster pulls the image. */
  reference: string
  /** Archive of files that are added to the image in each sandbox. */
  addedFiles: string | undefined
  accounts: AccountFiles
  /** Files of the image, listed when the first sandbox of it starts. */
  listing: Promise<FileListing> | undefined
}

/** Builds images of Dockerfiles and keeps them in a registry, where every worker finds them. */
export type ImageBuilder = {
  settings: RegistrySettings
  registry: ImageRegistry
  /** Folder of the image store, which local sandboxes of the same data folder share. */
  storeFolder: string
  /** Hosts that builds may reach besides public ones. */
  buildHosts: readonly AllowedHost[]
  /** Digests in the store of the images that this process has pushed, by their digests in the registry. */
  storeDigests: Map<string, string>
  /** Digests of folders that never change, by path. */
  folderDigests: Map<string, string>
  /** Images of such folders that are being pushed, or undefined for a while after a failure, by path. */
  folderImages: Map<string, Promise<string | undefined>>
}

/** Returns the name of a sandbox's pod or of a sandbox network. An id may have characters that such a name may not. */
export const podName = ({ installation }: Cluster, id: string): string =>
  `assay-${installation.toLowerCase()}-${createHash('sha256').update(id).digest('hex').slice(0, 20)}`

export const podsPath = ({ namespace }: Cluster): string => `/api/v1/namespaces/${namespace}/pods`

/** Names of a pod's containers: the one of the sandbox, and the one that carries files and connections for it. */
export const MAIN = 'main'
export const HELPER = 'helper'

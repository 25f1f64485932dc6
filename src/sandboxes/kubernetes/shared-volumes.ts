import { createHash } from 'node:crypto'
import { LABEL } from '../kernel/ownership.ts'
import { type Mount, type SandboxNetwork, type SandboxSpec, SandboxUnsupported } from '../sandbox.ts'
import { deleteAndWait } from './client.ts'
import { type Cluster, podName } from './cluster.ts'

/** Volumes of a pod: folders of one claim, which all pods of a sandbox network mount on the same node. */
export type PodVolumes = {
  claim: string
  /** Volumes of which this pod is the first user. An init container copies the files of the image at `target` into them. */
  unfilled: { folder: string; target: string }[]
}

type VolumeMount = Extract<Mount, { kind: 'volume' }>

/** Volumes of one network. */
type VolumeState = {
  /** True once the claim of the network exists. */
  isClaimed: boolean
  /** Names of the volumes that have been filled. */
  filled: Set<string>
  /** Resolves when the last pod with volumes runs. Pods start one by one, so that one of them fills a volume. */
  started: Promise<unknown>
}

const states = new WeakMap<SandboxNetwork, VolumeState>()

/** Starts a pod after its volumes exist. Throws SandboxUnsupported if the settings name no storage for volumes. */
export async function startWithVolumes<T>(
  cluster: Cluster,
  { network, mounts }: Pick<SandboxSpec, 'network' | 'mounts'>,
  start: (volumes: PodVolumes | undefined) => Promise<T>,
): Promise<T> {
  const used = mounts.filter((mount) => mount.kind === 'volume')
  if (used.length === 0) return start(undefined)
  if (network === null) throw new SandboxUnsupported('Volumes require a sandbox network.')
  const { sandboxNetwork } = network
  const state = states.get(sandboxNetwork) ?? { isClaimed: false, filled: new Set(), started: Promise.resolve() }
  states.set(sandboxNetwork, state)
  const starting = state.started.then(() => startNext(cluster, { state, id: sandboxNetwork.id, used, start }))
  state.started = starting.catch(() => {}) // reported to this pod
  return starting
}

type VolumeStart<T> = {
  state: VolumeState
  id: string
  used: VolumeMount[]
  start: (volumes: PodVolumes) => Promise<T>
}

async function startNext<T>(cluster: Cluster, { state, id, used, start }: VolumeStart<T>): Promise<T> {
  const claim = podName(cluster, id)
  if (!state.isClaimed) await createClaim(cluster, id, claim)
  state.isClaimed = true
  const unfilled = used
    .filter(({ name }) => !state.filled.has(name))
    .map(({ name, target }) => ({ folder: toVolumeFolder(name), target }))
  const started = await start({ claim, unfilled })
  for (const { name } of used) state.filled.add(name)
  return started
}

/** Reports whether a network has a claim, which must be removed. */
export const hasClaim = (network: SandboxNetwork): boolean => states.get(network)?.isClaimed ?? false

/** Folder of a volume in the claim. The name of a volume may have characters that a path may not. */
export const toVolumeFolder = (name: string): string => createHash('sha256').update(name).digest('hex').slice(0, 20)

export const claimsPath = ({ namespace }: Cluster): string => `/api/v1/namespaces/${namespace}/persistentvolumeclaims`

/** Time after which other processes remove a network without pods, even if its owner may be alive. */
const FIRST_POD_MS = 3_600_000

/** Builds the metadata of an object of a sandbox network, which `reapNetworks` reads if the owner has died. */
export const buildNetworkMetadata = ({ installation, owner }: Cluster, id: string, name: string) => ({
  name,
  labels: { [LABEL.installation]: installation },
  annotations: {
    [LABEL.network]: id,
    [LABEL.owner]: owner,
    [LABEL.deadline]: String(Date.now() + FIRST_POD_MS),
  },
})

async function createClaim(cluster: Cluster, id: string, name: string): Promise<void> {
  const { kubernetes, settings } = cluster
  if (settings.volumes === undefined)
    throw new SandboxUnsupported(
      'Volumes in Kubernetes require a storage class: set volumes in the Kubernetes settings.',
    )
  const { storageClass, size } = settings.volumes
  const body = {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: buildNetworkMetadata(cluster, id, name),
    // All pods that use the claim run on one node.
    spec: {
      storageClassName: storageClass,
      accessModes: ['ReadWriteOnce'],
      resources: { requests: { storage: size } },
    },
  }
  await kubernetes.call('POST', claimsPath(cluster), { body })
}

/** Removes the claim of a network and waits until the cluster no longer lists it. The pods that used it must have been removed. */
export const removeClaim = (cluster: Cluster, name: string): Promise<void> =>
  deleteAndWait(cluster.kubernetes, `${claimsPath(cluster)}/${name}`, {
    timeoutMessage: `The cluster did not remove the volume claim ${name} within a minute. Check whether a pod still uses it, and the provisioner of its storage class.`,
  })

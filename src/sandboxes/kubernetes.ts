import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { shareSuccess } from '../platform/concurrency.ts'
import type { Log } from '../platform/log.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import { readOwnerId, reapScratchFolders } from './kernel/ownership.ts'
import { createImageBuilder, discardBuilt, reapBuilds, testBuilder } from './kubernetes/build-image.ts'
import { connectKubernetes, QuotaExceeded } from './kubernetes/client.ts'
import type { Cluster } from './kubernetes/cluster.ts'
import type { OpenedSettings } from './kubernetes/connection.ts'
import { requireDeniedNetwork } from './kubernetes/network-policy.ts'
import { reap } from './kubernetes/pods.ts'
import { prepareImage } from './kubernetes/prepare.ts'
import { openNetwork, reapNetworks, testNetworks } from './kubernetes/sandbox-network.ts'
import { adoptSandbox, startSandbox } from './kubernetes/start.ts'
import { localFolder } from './local/image-store.ts'
import type { Capabilities, SandboxProvider } from './sandbox.ts'

type KubernetesOptions = {
  /** Called when the cluster is first needed. It may throw SandboxUnavailable. */
  open: () => Promise<OpenedSettings>
  /** Distinguishes servers that share a namespace, unless the settings do. Each removes only its own leftovers. */
  installation: string
  dataFolder: string
  /** Hosts that builds may reach besides public ones. */
  buildHosts?: readonly AllowedHost[] | undefined
  log: Log
}

/** Time for which a namespace that was full is assumed to stay full. */
const QUOTA_MEMORY_MS = 15_000

/** Creates the provider `kubernetes`: each sandbox is a pod of a namespace. */
export function createKubernetesProvider(options: KubernetesOptions): SandboxProvider {
  // After a failure, the next call tries again, because the cluster may have become reachable.
  const cluster = shareSuccess(() => openCluster(options))
  const testOnce = shareSuccess(async () => testCluster(await cluster()))

  let lastQuotaError: { error: QuotaExceeded; at: number } | undefined
  /** Remembers that the namespace is full, so that the next self-test reports it and the work is paused. */
  const rememberQuota = (error: unknown): never => {
    if (error instanceof QuotaExceeded) lastQuotaError = { error, at: performance.now() }
    throw error
  }

  return {
    name: 'kubernetes',
    async selfTest() {
      if (lastQuotaError && performance.now() - lastQuotaError.at < QUOTA_MEMORY_MS) throw lastQuotaError.error
      const { kubernetes, builder } = await cluster()
      await kubernetes.call('GET', '/version')
      await builder?.registry.requireRead()
      return testOnce()
    },
    prepare: async (source, prepareOptions) =>
      prepareImage(await cluster(), source, prepareOptions).catch(rememberQuota),
    // Copies of images on the nodes are removed by the kubelet.
    discard: async (image) => discardBuilt(await cluster(), image),
    openNetwork: async (id) => openNetwork(await cluster(), id),
    start: async (spec) => startSandbox(await cluster(), spec).catch(rememberQuota),
    adopt: async (spec) => adoptSandbox(await cluster(), spec),
    async reap(adoptableIds = new Set()) {
      const opened = await cluster()
      await reapBuilds(opened)
      await reapScratchFolders(opened.folder)
      const removed = await reap(opened, adoptableIds)
      return removed + (await reapNetworks(opened))
    },
  }
}

async function openCluster({
  open,
  installation,
  dataFolder,
  buildHosts = [],
  log,
}: KubernetesOptions): Promise<Cluster> {
  const { settings, connection } = await open()
  const folder = join(dataFolder, 'sandboxes', 'kubernetes')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const storeFolder = localFolder(dataFolder)
  return {
    kubernetes: connectKubernetes(connection),
    settings,
    namespace: settings.namespace ?? connection.namespace ?? 'default',
    installation: settings.installation ?? installation,
    owner: await readOwnerId(),
    folder,
    log,
    images: new Map(),
    builder: settings.registry && createImageBuilder(settings.registry, { storeFolder, buildHosts }),
  }
}

async function testCluster(cluster: Cluster): Promise<Capabilities> {
  if (cluster.builder) await testBuilder(cluster.builder)
  await requireDeniedNetwork(cluster)
  return {
    isolation: `kubernetes:${cluster.settings.runtimeClass ?? 'default'}`,
    gatewayChannel: 'relay',
    // The API has no limit on processes, and the kubelet measures disk use at intervals only.
    limits: { cpus: true, memory: true, pids: false, disk: 'watched' },
    ...(await testNetworks(cluster)),
  }
}

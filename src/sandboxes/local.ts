import { shareSuccess } from '../platform/concurrency.ts'
import type { Log } from '../platform/log.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import { localFolder, openStore } from './local/image-store.ts'
import { importImage } from './local/import-image.ts'
import { type Host, inspectHost, type Runtime, requireRuntime } from './local/machine.ts'
import { openNetwork } from './local/network.ts'
import { prepareImage } from './local/prepare.ts'
import { discardImage, reap } from './local/reap.ts'
import { startSandbox } from './local/start.ts'
import type { Capabilities, Image, SandboxProvider } from './sandbox.ts'

export type LocalOptions = {
  dataFolder: string
  runtime: Runtime | 'auto'
  /** Allows tasks to run on the system files of this machine when there is no base image. */
  allowHostBase: boolean
  /** False forces the built-in builder even where buildah is installed. */
  useBuildah?: boolean
  /** Hosts that builds may reach besides public ones. */
  buildHosts?: readonly AllowedHost[]
  log: Log
}

/** Creates the provider `local`, which needs no daemon: bubblewrap or runc on an overlay of images in the data folder. */
export function createLocalProvider(options: LocalOptions): SandboxProvider & {
  /** Imports a root filesystem, the output of `docker save` or an OCI layout under a name that tasks can use. */
  importRootfs(path: string, name?: string): Promise<Image>
} {
  const folder = localFolder(options.dataFolder)
  // After a failure, the next call tries again, because missing programs may have been installed.
  const openOnce = shareSuccess(() => openHost(options, folder))

  return {
    name: 'local',
    selfTest: async () => {
      const host = await openOnce()
      await requireRuntime(host.runtime)
      return toCapabilities(host)
    },
    prepare: async (source, prepareOptions) => {
      const { allowHostBase, useBuildah = true, buildHosts = [] } = options
      return prepareImage({ host: await openOnce(), allowHostBase, useBuildah, buildHosts }, source, prepareOptions)
    },
    discard: async (image) => discardImage(await openOnce(), image),
    openNetwork: async (id) => openNetwork(await openOnce(), id),
    start: async (spec) => startSandbox(await openOnce(), spec),
    reap: async () => reap(await openOnce()),
    importRootfs: async (path, name) => importImage(await openStore(folder), path, name),
  }
}

async function openHost({ runtime, log }: LocalOptions, folder: string): Promise<Host> {
  const store = await openStore(folder)
  if (runtime !== 'auto') return inspectHost(store, runtime, log)
  try {
    return await inspectHost(store, 'runc', log)
  } catch (error) {
    log.info({ error }, 'runc does not work on this machine; sandboxes use bubblewrap')
    return inspectHost(store, 'bwrap', log)
  }
}

function toCapabilities({ runtime, cgroups, hasLoopDevices, hasNetworks }: Host): Capabilities {
  const hasCgroups = cgroups !== undefined
  return {
    isolation: runtime,
    gatewayChannel: 'namespace',
    limits: { cpus: hasCgroups, memory: hasCgroups, pids: hasCgroups, disk: hasLoopDevices ? 'hard' : 'watched' },
    networks: hasNetworks,
    volumes: hasNetworks,
  }
}

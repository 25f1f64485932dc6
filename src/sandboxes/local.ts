import { join } from 'node:path'
import type { Log } from '../platform/log.ts'
import type { AllowedHost } from './egress/rules.ts'
import { openStore } from './local/image-store.ts'
import { importImage } from './local/import-image.ts'
import { findHost, type Host, type Runtime, requireRuntime } from './local/machine.ts'
import { openNetwork } from './local/network.ts'
import { prepareImage } from './local/prepare.ts'
import { reap } from './local/reap.ts'
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

/** Sandboxes without a daemon: bubblewrap or runc on an overlay of images that lie in the data folder. */
export function createLocalProvider(options: LocalOptions): SandboxProvider & {
  /** Takes in a root filesystem, what `docker save` wrote or an OCI layout, under a name that tasks can use. */
  importRootfs(path: string, name?: string): Promise<Image>
} {
  const folder = join(options.dataFolder, 'sandboxes', 'local')
  let found: Promise<Host> | undefined
  const host = (): Promise<Host> => {
    found ??= open(options, folder)
    // Retried on the next call, because missing programs may have been installed.
    found.catch(() => {
      found = undefined
    })
    return found
  }

  return {
    name: 'local',
    selfTest: async () => {
      const known = await host()
      await requireRuntime(known.runtime)
      return capabilitiesOf(known)
    },
    prepare: async (source, prepareOptions) => {
      const { allowHostBase, useBuildah = true, buildHosts = [] } = options
      return prepareImage({ host: await host(), allowHostBase, useBuildah, buildHosts }, source, prepareOptions)
    },
    openNetwork: async (id) => openNetwork(await host(), id),
    start: async (spec) => startSandbox(await host(), spec),
    reap: async () => reap(await host()),
    importRootfs: async (path, name) => importImage(await openStore(folder), path, name),
  }
}

async function open({ runtime, log }: LocalOptions, folder: string): Promise<Host> {
  const store = await openStore(folder)
  if (runtime !== 'auto') return findHost(store, runtime, log)
  try {
    return await findHost(store, 'runc', log)
  } catch (error) {
    log.info({ error }, 'sandboxes are run by bubblewrap, because runc does not work here')
    return findHost(store, 'bwrap', log)
  }
}

function capabilitiesOf({ runtime, cgroups, loop, groups }: Host): Capabilities {
  const limited = cgroups !== undefined
  return {
    isolation: runtime,
    gatewayChannel: 'namespace',
    limits: { cpus: limited, memory: limited, pids: limited, disk: loop ? 'hard' : 'watched' },
    groups,
  }
}

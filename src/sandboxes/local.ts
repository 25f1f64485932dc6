import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../platform/log.ts'
import type { AllowedHost } from '../platform/outbound/url-rules.ts'
import { removeWithBuildah } from './local/buildah.ts'
import { type ImageStore, listImages, openStore } from './local/image-store.ts'
import { importImage } from './local/import-image.ts'
import { type Host, inspectHost, type Runtime, requireRuntime } from './local/machine.ts'
import { openNetwork } from './local/network.ts'
import { prepareImage } from './local/prepare.ts'
import { reap, removeFolder } from './local/reap.ts'
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
  const folder = join(options.dataFolder, 'sandboxes', 'local')
  let opened: Promise<Host> | undefined
  const openOnce = (): Promise<Host> => {
    opened ??= openHost(options, folder)
    // A failure is retried on the next call, because missing programs may have been installed.
    opened.catch(() => {
      opened = undefined
    })
    return opened
  }

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
  }
}

/** Removes a built image with its layers, except those of other images. Imported and pulled images are left alone. */
async function discardImage(host: Host, { digest }: Pick<Image, 'digest'>): Promise<void> {
  const { store } = host
  const keys = await listBuildKeys(store, digest)
  if (keys.length === 0) return
  const images = await listImages(store)
  const layersOfImage = images.filter((each) => each.digest === digest).flatMap(({ layers }) => layers)
  const layersOfOthers = new Set(images.filter((each) => each.digest !== digest).flatMap(({ layers }) => layers))
  for (const key of keys) await rm(join(store.folder, 'builds', key), { force: true })
  await rm(join(store.folder, 'images', `${encodeURIComponent(digest)}.json`), { force: true })
  const unused = layersOfImage.filter((layer) => !layersOfOthers.has(layer))
  if (unused.some((layer) => !layer.startsWith(OWN_LAYERS))) await removeWithBuildah(store, keys)
  for (const layer of unused) if (layer.startsWith(OWN_LAYERS)) await removeFolder(host, layer)
}

/** Prefix of the layers of our own builder. Others belong to buildah. */
const OWN_LAYERS = 'layers/'

/** Lists the keys of the builds whose result is this image. */
async function listBuildKeys(store: ImageStore, digest: string): Promise<string[]> {
  const folder = join(store.folder, 'builds')
  const names = await readdir(folder)
  const digests = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8').catch(() => '')))
  return names.filter((_, index) => digests[index] === digest)
}

import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'
import { readDockerfile } from '../../harbor/dockerfile.ts'
import type { AllowedHost } from '../egress/rules.ts'
import { baseNames } from '../kernel/base-names.ts'
import { refuseDangers, refuseMounts } from '../kernel/dockerfile-dangers.ts'
import { treeDigest } from '../kernel/tree-digest.ts'
import {
  type Image,
  type ImageSource,
  type PrepareOptions,
  SandboxUnavailable,
  SandboxUnsupported,
} from '../sandbox.ts'
import { withBuildDisk } from './build-disk.ts'
import { inBuildRoom } from './build-room.ts'
import { buildWithBuildah, hasBuildah, pullWithBuildah } from './buildah.ts'
import { buildBuiltIn } from './built-in.ts'
import { hostBase } from './host-base.ts'
import {
  findBuild,
  findImage,
  fullName,
  type ImageStore,
  keepBuild,
  nameImage,
  type StoredImage,
} from './image-store.ts'
import type { Host } from './machine.ts'

export type Preparing = {
  host: Host
  allowHostBase: boolean
  /** False forces the built-in builder even where buildah is installed. */
  useBuildah: boolean
  buildHosts: readonly AllowedHost[]
}

type LocalPrebuilt = Extract<ImageSource, { kind: 'prebuilt' }>
type LocalDockerfile = Extract<ImageSource, { kind: 'dockerfile' }>

/** A name that was imported, or a Dockerfile, built once for the same content. */
export async function prepareImage(preparing: Preparing, source: ImageSource, options: PrepareOptions): Promise<Image> {
  const late = AbortSignal.timeout(options.timeoutSec * 1000)
  const timed = { ...options, signal: AbortSignal.any([options.signal, late]) }
  try {
    if (source.kind === 'dockerfile') return await build(preparing, source, timed)
    return await withFiles(preparing.host, await named(preparing, source.name, timed), source, timed)
  } catch (error) {
    if (!late.aborted || options.signal.aborted) throw error
    throw new SandboxUnavailable(`The image was not ready after ${options.timeoutSec} seconds.`, { cause: error })
  }
}

async function named(preparing: Preparing, name: string, options: PrepareOptions): Promise<StoredImage> {
  const { host, useBuildah, allowHostBase } = preparing
  return findBase({ host, withBuildah: await canBuildah(host, useBuildah), allowHostBase }, name, options)
}

/** Beside an image that is built already, the files of the folder are put into the working folder. */
async function withFiles(
  host: Host,
  base: StoredImage,
  { folder: context, workdir }: LocalPrebuilt,
  options: PrepareOptions,
): Promise<StoredImage> {
  if (context === null) return base
  const files = (await readdir(context).catch(() => [])).filter((name) => name !== '.gitkeep')
  if (files.length === 0) return base
  const text = `FROM ${base.digest}\nWORKDIR ${workdir ?? base.workdir}\nCOPY . .\n`
  const recipe: LocalDockerfile = { kind: 'dockerfile', context, dockerfile: '', target: null, args: {} }
  const key = await buildKey(text, recipe, [])
  const known = await findBuild(host.store, key)
  if (known && (await areThere(host.store, known))) return known
  const built = await buildBuiltIn(
    host,
    { ...recipe, dockerfile: readDockerfile(text), key, base },
    { ...options, entering: '', buildHosts: [], layers: [] },
  )
  await keepBuild(host.store, key, built)
  return built
}

/** Buildah needs more rights than an ordinary user has in one user namespace. */
const canBuildah = async ({ rootless }: Host, useBuildah: boolean): Promise<boolean> =>
  useBuildah && !rootless && (await hasBuildah())

const missing = (name: string, cause?: unknown): SandboxUnavailable =>
  new SandboxUnavailable(
    `There is no image ${fullName(name)} here${cause === undefined ? '' : ', and it could not be pulled'}. Import one: assay images import <folder or tar> --name ${name}. Or set ASSAY_ALLOW_HOST_BASE=1 to use the files of this machine in its place.`,
    { cause },
  )

async function build(
  { host, ...preparing }: Preparing,
  recipe: LocalDockerfile,
  options: PrepareOptions,
): Promise<StoredImage> {
  const { store } = host
  const path = join(recipe.context, recipe.dockerfile)
  const text = await readFile(path, 'utf8')
  const dockerfile = readDockerfile(text)
  refuseDangers(dockerfile)
  refuseMounts(dockerfile)
  const withBuildah = await canBuildah(host, preparing.useBuildah)
  const sources = { host, withBuildah, allowHostBase: preparing.allowHostBase }
  const bases = await findBases(sources, baseNames(dockerfile, recipe), options)
  const onHost = bases.some(({ image }) => image.base === 'host-base')
  const key = await buildKey(text, recipe, bases)
  const known = await findBuild(store, key)
  if (known && (await areThere(store, known))) return known

  const [base] = bases
  const { buildHosts } = preparing
  const { limits = DEFAULT_LIMITS, signal } = options
  const built = await inBuildRoom(host, limits, ({ entering, processes }) =>
    withBuildDisk({ store, limits, processes, signal }, (disk) => {
      const building = { ...options, ...disk, entering, buildHosts }
      return withBuildah && !onHost
        ? buildWithBuildah(store, { ...recipe, dockerfile, path, bases }, building)
        : buildBuiltIn(host, { ...recipe, dockerfile, key, base: builtInBase(base?.image) }, building)
    }),
  )
  await keepBuild(store, key, built)
  return built
}

function builtInBase(image: StoredImage | undefined): StoredImage {
  if (image) return image
  throw new SandboxUnsupported('FROM scratch needs buildah.')
}

type Base = { name: string; image: StoredImage }

type Sources = { host: Host; withBuildah: boolean; allowHostBase: boolean }

/** Imported, or from a registry, or the machine itself where that is allowed. */
async function findBases(sources: Sources, names: string[], options: PrepareOptions): Promise<Base[]> {
  return Promise.all(names.map(async (name) => ({ name, image: await findBase(sources, name, options) })))
}

async function findBase(
  { host, withBuildah, allowHostBase }: Sources,
  name: string,
  options: PrepareOptions,
): Promise<StoredImage> {
  const known = await findImage(host.store, name)
  if (known) return known
  if (allowHostBase) return hostBase(host.store)
  return pull(host, withBuildah, name, options)
}

async function pull(
  { store }: Host,
  withBuildah: boolean,
  name: string,
  options: PrepareOptions,
): Promise<StoredImage> {
  if (!withBuildah) throw missing(name)
  const image = await pullWithBuildah(store, name, options).catch((error: unknown) => {
    throw error instanceof SandboxUnsupported ? error : missing(name, error)
  })
  await nameImage(store, name, image)
  return image
}

async function buildKey(text: string, { context, target, args }: LocalDockerfile, bases: Base[]): Promise<string> {
  const settings = target === null && Object.keys(args).length === 0 ? [] : [target, args]
  const parts = [
    text,
    await treeDigest(context),
    ...settings,
    ...bases.flatMap(({ name, image }) => [name, image.digest]),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/** Reports whether all layers exist. They may have been removed by hand. */
async function areThere(store: ImageStore, { layers }: StoredImage): Promise<boolean> {
  const found = await Promise.all(layers.map((layer) => stat(join(store.folder, layer)).catch(() => undefined)))
  return found.every((stats) => stats?.isDirectory())
}

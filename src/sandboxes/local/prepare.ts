import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { type Dockerfile, readDockerfile } from '../../harbor/dockerfile.ts'
import type { Environment } from '../../harbor/task.ts'
import { type Image, type PrepareOptions, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { buildWithBuildah, hasBuildah, pullWithBuildah } from './buildah.ts'
import { buildBuiltIn } from './built-in.ts'
import { refuseDangers } from './dockerfile-dangers.ts'
import { hostBase } from './host-base.ts'
import { findBuild, findImage, fullName, keepBuild, nameImage, type Store, type StoredImage } from './image-store.ts'
import type { Host } from './machine.ts'
import { treeDigest } from './tree-digest.ts'

export type Preparing = {
  host: Host
  allowHostBase: boolean
  /** False: the built-in builder is used even where there is buildah. */
  useBuildah: boolean
}

/** The image of a task's environment: a name that was imported, or a Dockerfile, built once for the same content. */
export async function prepareImage(
  preparing: Preparing,
  environment: Environment,
  folder: string,
  options: PrepareOptions,
): Promise<Image> {
  if (environment.os !== 'linux') throw new SandboxUnsupported(`The local sandbox has no ${environment.os}.`)
  if (environment.compose) throw new SandboxUnsupported('The local sandbox runs no docker-compose.yaml: use docker.')
  const signal = AbortSignal.any([options.signal, AbortSignal.timeout(environment.buildTimeoutSec * 1000)])
  if (environment.image !== null) {
    const image = await named(preparing, environment.image, { ...options, signal })
    return withFiles(preparing.host, image, { environment, folder }, { ...options, signal })
  }
  if (environment.dockerfile === null) throw new SandboxUnsupported('The task has neither an image nor a Dockerfile.')
  const files = { dockerfile: join(folder, environment.dockerfile), context: join(folder, environment.folder) }
  return build(preparing, files, { ...options, signal })
}

async function named({ host, useBuildah }: Preparing, name: string, options: PrepareOptions): Promise<StoredImage> {
  const known = await findImage(host.store, name)
  return known ?? pull(host, await canBuildah(host, useBuildah), name, options)
}

type Task = { environment: Environment; folder: string }

/** Beside an image that is built already, the files of the environment are put into the working folder. */
async function withFiles(host: Host, base: StoredImage, task: Task, options: PrepareOptions): Promise<StoredImage> {
  const context = join(task.folder, task.environment.folder)
  const files = (await readdir(context).catch(() => [])).filter((name) => name !== '.gitkeep')
  if (files.length === 0) return base
  const text = `FROM ${base.digest}\nWORKDIR ${task.environment.workdir ?? base.workdir}\nCOPY . .\n`
  const key = await buildKey(text, context, [])
  const known = await findBuild(host.store, key)
  if (known && (await areThere(host.store, known))) return known
  const built = await buildBuiltIn(host, { dockerfile: readDockerfile(text), key, context, base }, options)
  await keepBuild(host.store, key, built)
  return built
}

/** It needs more rights than an ordinary user has in one user namespace. */
const canBuildah = async ({ rootless }: Host, useBuildah: boolean): Promise<boolean> =>
  useBuildah && !rootless && (await hasBuildah())

const missing = (name: string, cause?: unknown): SandboxUnavailable =>
  new SandboxUnavailable(
    `There is no image ${fullName(name)} here. Import one: assay images import <folder or tar> --name ${name}`,
    { cause },
  )

type BuildFiles = { dockerfile: string; context: string }

async function build(
  { host, ...preparing }: Preparing,
  files: BuildFiles,
  options: PrepareOptions,
): Promise<StoredImage> {
  const { store } = host
  const text = await readFile(files.dockerfile, 'utf8')
  const dockerfile = readDockerfile(text)
  refuseDangers(dockerfile)
  const withBuildah = await canBuildah(host, preparing.useBuildah)
  const sources = { host, withBuildah, allowHostBase: preparing.allowHostBase }
  const bases = await findBases(sources, baseNames(dockerfile), options)
  const onHost = bases.some(({ image }) => image.base === 'host-base')
  const key = await buildKey(text, files.context, bases)
  const known = await findBuild(store, key)
  if (known && (await areThere(store, known))) return known

  const [base] = bases
  const built =
    withBuildah && !onHost
      ? await buildWithBuildah(store, { ...files, bases }, options)
      : await buildBuiltIn(host, { dockerfile, key, context: files.context, base: builtInBase(base?.image) }, options)
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
    throw missing(name, error)
  })
  await nameImage(store, name, image)
  return image
}

async function buildKey(text: string, context: string, bases: Base[]): Promise<string> {
  const parts = [text, await treeDigest(context), ...bases.flatMap(({ name, image }) => [name, image.digest])]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/** Somebody may have tidied up. */
async function areThere(store: Store, { layers }: StoredImage): Promise<boolean> {
  const found = await Promise.all(layers.map((layer) => stat(join(store.folder, layer)).catch(() => undefined)))
  return found.every((stats) => stats?.isDirectory())
}

/** What its stages begin with, except other stages and nothing. */
export function baseNames({ globals, stages }: Dockerfile): string[] {
  const values = new Map(globals.flatMap(({ pairs }) => pairs.map(({ name, value }) => [name, value ?? ''])))
  const expand = (text: string): string =>
    text.replaceAll(
      /\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))/g,
      (_, name, fallback, bare) => values.get(name ?? bare) || (fallback ?? ''),
    )
  const own = new Set(stages.flatMap(({ name }) => name ?? []))
  const names = stages.map(({ image }) => expand(image))
  return [...new Set(names.filter((name) => name !== 'scratch' && !own.has(name)))]
}

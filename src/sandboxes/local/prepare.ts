import { readdir } from 'node:fs/promises'
import { readDockerfile } from '../../harbor/dockerfile.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { listBaseNames } from '../kernel/dockerfile.ts'
import { prepareInTime } from '../kernel/prepare-image.ts'
import { type Image, type ImageSource, type PrepareOptions, SandboxUnsupported } from '../sandbox.ts'
import { resolveBase, resolveBases } from './base-images.ts'
import { buildWithLimits, computeBuildKey, type DockerfileContext, readCheckedDockerfile } from './build-dockerfile.ts'
import { buildWithBuildah, hasBuildah } from './buildah.ts'
import { buildBuiltIn } from './built-in.ts'
import { findCompleteBuild, type StoredImage, saveBuild } from './image-store.ts'
import type { Host } from './machine.ts'

type PrepareContext = {
  host: Host
  allowHostBase: boolean
  /** False forces the built-in builder even where buildah is installed. */
  useBuildah: boolean
  buildHosts: readonly AllowedHost[]
}

type LocalPrebuilt = Extract<ImageSource, { kind: 'prebuilt' }>

/** Prepares an image: an imported name, or a Dockerfile, built once per content. */
export async function prepareImage(
  context: PrepareContext,
  source: ImageSource,
  options: PrepareOptions,
): Promise<Image> {
  return prepareInTime(options, async (timedOptions) => {
    if (source.kind === 'dockerfile') return buildDockerfile(context, source, timedOptions)
    const base = await resolvePrebuilt(context, source.name, timedOptions)
    return addFiles(context.host, base, source, timedOptions)
  })
}

async function resolvePrebuilt(context: PrepareContext, name: string, options: PrepareOptions): Promise<StoredImage> {
  const { host, useBuildah, allowHostBase, buildHosts } = context
  const withBuildah = await canUseBuildah(host, useBuildah)
  return resolveBase({ store: host.store, withBuildah, allowHostBase, buildHosts }, name, options)
}

/** Adds the files of the folder to the working directory of a prebuilt image. */
async function addFiles(
  host: Host,
  base: StoredImage,
  { folder: context, workdir }: LocalPrebuilt,
  options: PrepareOptions,
): Promise<StoredImage> {
  if (context === null) return base
  const files = (await readdir(context).catch(() => [])).filter((name) => name !== '.gitkeep')
  if (files.length === 0) return base
  const text = `FROM ${base.digest}\nWORKDIR ${workdir ?? base.workdir}\nCOPY . .\n`
  const buildSource: DockerfileContext = { kind: 'dockerfile', context, dockerfile: '', target: null, args: {} }
  const key = await computeBuildKey(text, buildSource, [])
  const known = await findCompleteBuild(host.store, key)
  if (known) return known
  const built = await buildBuiltIn(
    host,
    { ...buildSource, dockerfile: readDockerfile(text), key, base },
    { ...options, cgroupPrefix: '', buildHosts: [], layers: [] },
  )
  await saveBuild(host.store, key, built)
  return built
}

/** Reports whether buildah can be used. buildah needs more rights than an ordinary user has in one user namespace. */
const canUseBuildah = async ({ rootless }: Host, useBuildah: boolean): Promise<boolean> =>
  useBuildah && !rootless && (await hasBuildah())

async function buildDockerfile(
  { host, ...context }: PrepareContext,
  source: DockerfileContext,
  options: PrepareOptions,
): Promise<StoredImage> {
  const { store } = host
  const { dockerfile, text } = await readCheckedDockerfile(source)
  const withBuildah = await canUseBuildah(host, context.useBuildah)
  const { buildHosts, allowHostBase } = context
  const baseSources = { store, withBuildah, allowHostBase, buildHosts }
  const bases = await resolveBases(baseSources, listBaseNames(dockerfile, source), options)
  const hasHostBase = bases.some(({ image }) => image.base === 'host-base')
  const key = await computeBuildKey(text, source, bases)
  const [base] = bases
  return buildWithLimits(host, key, options, (limited) => {
    const buildOptions = { ...limited, buildHosts }
    return withBuildah && !hasHostBase
      ? buildWithBuildah(store, { ...source, dockerfile, text, key, bases }, buildOptions)
      : buildBuiltIn(host, { ...source, dockerfile, key, base: requireBase(base?.image) }, buildOptions)
  })
}

function requireBase(image: StoredImage | undefined): StoredImage {
  if (image) return image
  throw new SandboxUnsupported('FROM scratch needs buildah.')
}

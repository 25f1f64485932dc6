import { createHash } from 'node:crypto'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { parseUntrustedJson } from '../../platform/untrusted-json.ts'
import type { AccountFiles } from '../kernel/accounts.ts'
import { findLayout } from '../kernel/cgroup.ts'
import { listBaseNames } from '../kernel/dockerfile.ts'
import { startNamespaceProcess } from '../kernel/namespace-process.ts'
import { openScratchFolder } from '../kernel/ownership.ts'
import { buildOnce, computeTreeDigest, prepareInTime } from '../kernel/prepare-image.ts'
import { renderCommand } from '../kernel/shell.ts'
import { resolveBases } from '../local/base-images.ts'
import {
  type BuildHost,
  buildWithLimits,
  type CheckedDockerfile,
  computeBuildKey,
  type DockerfileContext,
  readCheckedDockerfile,
} from '../local/build-dockerfile.ts'
import { buildWithBuildah, hasBuildah, pushWithBuildah, testBuildah } from '../local/buildah.ts'
import { readAccountFiles } from '../local/files.ts'
import {
  createDraftPath,
  DRAFTS,
  ImageSettings,
  type ImageStore,
  openStore,
  type StoredImage,
  toImageSettings,
} from '../local/image-store.ts'
import { discardImage, reap } from '../local/reap.ts'
import { type Image, type PrepareOptions, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import type { Cluster, ImageBuilder } from './cluster.ts'
import { connectRegistry, type ManifestContent } from './registry.ts'
import { formatAuthFile, type RegistrySettings, readCredential, registryHost } from './registry-settings.ts'

export const createImageBuilder = (
  settings: RegistrySettings,
  options: Pick<ImageBuilder, 'storeFolder' | 'buildHosts'>,
): ImageBuilder => ({
  settings,
  registry: connectRegistry(settings),
  storeDigests: new Map(),
  folderDigests: new Map(),
  folderImages: new Map(),
  ...options,
})

const NO_REGISTRY =
  'Kubernetes sandboxes build a Dockerfile only if a registry is configured. Add registry with a repository, such as images.example.com/assay, to the file of ASSAY_KUBERNETES; or build the image, push it and set docker_image in the task.'

/** Finds the image of a Dockerfile in the registry, or builds and pushes it. */
export async function prepareBuilt(
  cluster: Cluster,
  source: DockerfileContext,
  options: PrepareOptions,
): Promise<Image> {
  const { builder } = cluster
  if (builder === undefined) throw new SandboxUnsupported(NO_REGISTRY)
  const { repository, nodeRepository = repository } = builder.settings
  const { image, accounts } = await prepareInTime(options, async (timedOptions) => {
    const checked = await readCheckedDockerfile(source)
    const tag = await computeTag(checked, source)
    const { signal } = timedOptions
    return buildOnce(`${repository}:${tag}`, {
      find: () => findBuilt(builder, tag, signal),
      build: () => buildAndPush(builder, { tag, checked, source }, timedOptions),
      signal,
    })
  })
  const known = cluster.images.get(image.digest)
  const reference = `${nodeRepository}@${image.digest}`
  if (known === undefined)
    cluster.images.set(image.digest, { reference, addedFiles: undefined, accounts, listing: undefined })
  return image
}

const IMAGE_NAME = /^[\w][\w./:@-]{0,254}$/

/**
 * Copies a named image to the registry, as a build of `FROM name`. The default command of an image can be read from a
 * registry, but not from the API of a cluster.
 */
export async function prepareNamed(cluster: Cluster, name: string, options: PrepareOptions): Promise<Image> {
  if (!IMAGE_NAME.test(name)) throw new SandboxUnsupported(`Invalid image name: ${JSON.stringify(name)}`)
  await using context = await openScratchFolder(cluster.folder)
  await writeFile(join(context.path, 'Dockerfile'), `FROM ${name}\n`)
  const source = {
    kind: 'dockerfile' as const,
    context: context.path,
    dockerfile: 'Dockerfile',
    target: null,
    args: {},
  }
  return await prepareBuilt(cluster, source, options)
}

/**
 * Computes the tag of an image from everything that a build depends on, except its base images: the name of a base image
 * is resolved by the first build. Workers may run as different users, so owners are left out.
 */
async function computeTag({ text }: CheckedDockerfile, { context, target, args }: DockerfileContext): Promise<string> {
  const files = await computeTreeDigest(context, { ignoresOwners: true })
  const parts = [text, files, target, Object.entries(args).sort(), process.arch]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

type BuiltImage = { image: Image; accounts: AccountFiles }

/**
 * Annotation of the manifest with the account files of the image, so that no pod has to be started to read them. Only
 * complete images that Assay has pushed have it.
 */
const ACCOUNTS = 'dev.assay.accounts'
const AccountsAnnotation = z.object({ passwd: z.string().optional(), group: z.string().optional() })

/** Finds a complete image. An image of another program under the tag does not count. */
async function findBuilt(builder: ImageBuilder, tag: string, signal: AbortSignal): Promise<BuiltImage | undefined> {
  const { registry, settings } = builder
  const manifest = await registry.findManifest(tag, signal)
  const annotation = manifest?.content.annotations?.[ACCOUNTS]
  if (manifest === undefined || annotation === undefined) return undefined
  const accounts = AccountsAnnotation.safeParse(parseUntrustedJson(annotation)).data
  const text = (await registry.readBlob(manifest.content.config.digest, signal)).toString()
  const document = ImageDocument.safeParse(parseUntrustedJson(text)).data
  if (accounts === undefined || document === undefined) return undefined
  const { digest } = manifest
  const registryName = `${settings.repository}@${digest}`
  return {
    image: { digest, ...toImageSettings(document.config ?? {}), base: 'image', registryName },
    accounts: { passwd: accounts.passwd, group: accounts.group },
  }
}

const ImageDocument = z.object({ config: ImageSettings.nullish() })

type TaggedBuild = { tag: string; checked: CheckedDockerfile; source: DockerfileContext }

async function buildAndPush(
  builder: ImageBuilder,
  { tag, checked, source }: TaggedBuild,
  options: PrepareOptions,
): Promise<BuiltImage> {
  const { registry, settings, storeFolder, buildHosts, storeDigests } = builder
  const host = await openBuildHost(settings, storeFolder)
  // A build may take long, so a missing permission is reported before it.
  await registry.requirePush(options.signal)
  const { store } = host
  const { dockerfile, text } = checked
  const sources = { store, withBuildah: true, allowHostBase: false, buildHosts }
  const bases = await resolveBases(sources, listBaseNames(dockerfile, source), options)
  const key = await computeBuildKey(text, source, bases)
  const stored = await buildWithLimits(host, key, options, (limited) =>
    buildWithBuildah(store, { ...source, dockerfile, text, key, bases }, { ...limited, buildHosts }),
  )
  const built = await push(builder, { tag, key, stored, store }, options)
  storeDigests.set(built.image.digest, stored.digest)
  return built
}

/** Returns what a build needs of this machine. Throws with the fix if it cannot build. */
async function openBuildHost({ builds }: RegistrySettings, storeFolder: string): Promise<BuildHost> {
  const isRoot = process.geteuid?.() === 0
  const problem = findBuildProblem({ builds, isRoot, isInstalled: builds && isRoot && (await hasBuildah()) })
  if (problem !== undefined) throw new SandboxUnavailable(problem)
  return { store: await openStore(storeFolder), cgroups: await findLayout() }
}

type BuildAbilities = {
  /** False if the settings leave builds to other workers. */
  builds: boolean
  isRoot: boolean
  /** True if buildah is installed. */
  isInstalled: boolean
}

/** Returns the reason why a worker cannot build images, with the fix. */
export function findBuildProblem({ builds, isRoot, isInstalled }: BuildAbilities): string | undefined {
  const elsewhere = 'or set registry.builds: false in the Kubernetes settings and let another worker build'
  if (!builds)
    return 'The image is not in the registry, and registry.builds: false in the Kubernetes settings forbids this worker to build it. Let another worker build it first.'
  if (!isRoot) return `Building a Dockerfile needs root: run the worker as root, ${elsewhere}.`
  if (!isInstalled)
    return `Building a Dockerfile needs buildah: install it on the worker (assay setup --yes buildah), ${elsewhere}.`
  return undefined
}

type StoredBuild = { tag: string; key: string; stored: StoredImage; store: ImageStore }

/** Pushes an image, unless another worker was faster. The manifest gets its tag last, when it is complete. */
async function push(
  builder: ImageBuilder,
  { tag, key, stored, store }: StoredBuild,
  options: PrepareOptions,
): Promise<BuiltImage> {
  const { registry, settings } = builder
  const { signal, onLog } = options
  const accounts = await readImageAccounts(store, stored)
  const find = () => findBuilt(builder, tag, signal)
  const faster = await find()
  if (faster) return faster
  onLog(`Pushing ${settings.repository}:${tag}`)
  const draft = await pushDraft(builder, { tag, key, store }, options)
  const manifest = await registry.findManifest(draft, signal)
  const published = await find()
  if (published === undefined && manifest !== undefined)
    await registry.putManifest(tag, addAccounts(manifest.content, accounts), signal)
  const built = published ?? (await find())
  if (built?.image.digest !== draft) await registry.deleteManifest(draft).catch(() => {})
  if (built) return built
  throw new SandboxUnavailable(`The image registry ${registryHost(settings.repository)} does not keep pushed images.`)
}

/** Account files that would make a manifest larger than registries accept are ignored, as other large ones are. */
const ACCOUNTS_BYTES_MAX = 1_000_000

function addAccounts(manifest: ManifestContent, accounts: AccountFiles): ManifestContent {
  const text = JSON.stringify(accounts)
  const annotation = Buffer.byteLength(JSON.stringify(text)) > ACCOUNTS_BYTES_MAX ? '{}' : text
  return { ...manifest, annotations: { ...manifest.annotations, [ACCOUNTS]: annotation } }
}

/** Pushes layers and settings of an image under a temporary tag. Returns the digest of the manifest. */
async function pushDraft(
  { settings }: ImageBuilder,
  { tag, key, store }: Pick<StoredBuild, 'tag' | 'key' | 'store'>,
  options: PrepareOptions,
): Promise<string> {
  const { repository, insecure } = settings
  // Drafts of dead workers are reaped.
  const folder = join(store.folder, await createDraftPath())
  await mkdir(folder, { mode: 0o700 })
  try {
    const authFile = join(folder, 'auth.json')
    await writeFile(authFile, formatAuthFile(repository, await readCredential(settings)), { mode: 0o600 })
    return await pushWithBuildah(store, key, { reference: `${repository}:${tag}-draft`, authFile, insecure }, options)
  } catch (error) {
    options.signal.throwIfAborted()
    if (!(error instanceof SandboxUnavailable)) throw error
    throw new SandboxUnavailable(
      `The image could not be pushed to the registry ${registryHost(repository)}: ${error.message}`,
      { cause: error },
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Reads the account files of an image, from a mount of its layers in a namespace of its own. */
async function readImageAccounts(store: ImageStore, { layers }: StoredImage): Promise<AccountFiles> {
  const namespaceProcess = await startNamespaceProcess({ rootless: false, copyMountsOf: undefined, cwd: store.folder })
  const mountPoint = await createDraftPath()
  await mkdir(join(store.folder, mountPoint))
  try {
    // The last folder makes a valid mount of a single layer.
    const lower = [...layers, DRAFTS.folder].join(':')
    await namespaceProcess.runOrThrow(
      'Mounting an image',
      renderCommand('mount', '-t', 'overlay', 'overlay', '-o', `ro,nosuid,nodev,lowerdir=${lower}`, mountPoint),
    )
    return await readAccountFiles(join(namespaceProcess.root, store.folder, mountPoint))
  } finally {
    await namespaceProcess.end()
    await rm(join(store.folder, mountPoint), { recursive: true })
  }
}

/** Deletes a built image from this machine, and from the registry if it supports that. Other images are left alone. */
export async function discardBuilt({ builder, images, log }: Cluster, { digest, registryName }: Image): Promise<void> {
  if (builder === undefined || registryName !== `${builder.settings.repository}@${digest}`) return
  images.delete(digest)
  await builder.registry.deleteManifest(digest)
  const storeDigest = builder.storeDigests.get(digest)
  if (storeDigest === undefined) return
  builder.storeDigests.delete(digest)
  await discardImage({ store: await openStore(builder.storeFolder), rootless: false }, { digest: storeDigest })
  log.debug({ image: digest }, 'discarded a built image')
}

/** Checks that this machine can build and push images. */
export async function testBuilder({ settings, storeFolder, registry }: ImageBuilder): Promise<void> {
  if (!settings.builds) return
  const { store } = await openBuildHost(settings, storeFolder)
  await testBuildah(store).catch((error: Error) => {
    throw new SandboxUnavailable(
      `buildah does not work on this machine, so that no Dockerfile can be built. Fix it, or set registry.builds: false in the Kubernetes settings. ${error.message}`,
      { cause: error },
    )
  })
  await registry.requirePush()
}

/** Removes what builds of dead processes have left on this machine. */
export async function reapBuilds({ builder, log }: Cluster): Promise<void> {
  if (!builder?.settings.builds || process.geteuid?.() !== 0) return
  await reap({ store: await openStore(builder.storeFolder), rootless: false, log })
}

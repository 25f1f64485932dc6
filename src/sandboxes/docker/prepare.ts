import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Dockerfile, readDockerfile } from '../../harbor/dockerfile.ts'
import { leadsToPrivateRegistry } from '../../platform/outbound/image-registry.ts'
import { resolveName } from '../../platform/outbound/public-host.ts'
import { listBaseNames, refuseDangers, refuseTriggers, toClassicDockerfile } from '../kernel/dockerfile.ts'
import { computeTreeDigest, prepareInTime } from '../kernel/prepare-image.ts'
import { type ImageSettings, toImageSettings } from '../local/image-store.ts'
import {
  type Image,
  type ImageSource,
  type PrepareOptions,
  SandboxUnavailable,
  SandboxUnsupported,
} from '../sandbox.ts'
import { type BuildPlan, buildImage, FILES_FOLDER, readMessages, refuseRemoteAdd } from './build.ts'
import { BUILT_PREFIX, evictImages, isImageId, recordUse } from './built-images.ts'
import { ignoring } from './client.ts'
import type { DockerEngine } from './engine.ts'

type DockerPrebuilt = Extract<ImageSource, { kind: 'prebuilt' }>
type DockerfileSource = Extract<ImageSource, { kind: 'dockerfile' }>

/** Prepares an image: a name that the engine has or can pull, or a Dockerfile, built once per content. */
export async function prepareImage(engine: DockerEngine, source: ImageSource, options: PrepareOptions): Promise<Image> {
  return prepareInTime(options, async (timedOptions) => {
    if (source.kind === 'dockerfile') return buildDockerfile(engine, source, timedOptions)
    return preparePrebuilt(engine, source, timedOptions)
  })
}

type InspectedImage = {
  Id: string
  Os: string
  Architecture: string
  RepoDigests?: string[] | null
  Config: ImageSettings
}

const inspectImage = ({ docker }: DockerEngine, name: string): Promise<InspectedImage | undefined> =>
  docker.call<InspectedImage>('GET', `/images/${encodeName(name)}/json`).catch(ignoring(404))

/** Checks an image id, which becomes part of file names. The engine may be untrusted. */
export function parseImageId(id: string): string {
  if (isImageId(id)) return id
  throw new SandboxUnavailable('The Docker engine sent an invalid image id.')
}

async function findImage(engine: DockerEngine, name: string): Promise<Image | undefined> {
  const found = await inspectImage(engine, name)
  if (found === undefined) return undefined
  return {
    digest: parseImageId(found.Id),
    ...toImageSettings(found.Config),
    base: 'image',
    ...toRegistryName(found.RepoDigests ?? [], name),
  }
}

/** Returns the name of an image in a registry. Of several, that of the requested repository is preferred. */
function toRegistryName(names: readonly string[], requested: string): Pick<Image, 'registryName'> {
  const repository = requested.replace(/[:@][^/]*$/, '')
  const registryName = names.find((each) => each.startsWith(`${repository}@`)) ?? names[0]
  return registryName === undefined ? {} : { registryName }
}

/** Encodes an image name for a path of the engine's API, which requires unescaped slashes. */
const encodeName = (name: string): string => encodeURIComponent(name).replaceAll('%2F', '/')

/** Finds or pulls an image, and adds the files of the folder to its working directory. */
async function preparePrebuilt(
  engine: DockerEngine,
  { name, folder, workdir }: DockerPrebuilt,
  options: PrepareOptions,
): Promise<Image> {
  const base = (await findImage(engine, name)) ?? (await pull(engine, name, options))
  const files = folder === null ? [] : await readdir(folder).catch(() => [])
  if (folder === null || files.every((file) => file === '.gitkeep')) return base
  const target = workdir ?? base.workdir
  if (/[\n\r$\\]/.test(target))
    throw new SandboxUnsupported(
      `${JSON.stringify(target)} cannot be a working directory: line breaks, $ and \\ are not supported.`,
    )
  await readTriggerFreeImage(engine, base.digest, name)
  const text = `FROM ${base.digest}\nWORKDIR ${target}\nCOPY ${FILES_FOLDER}/ .\n`
  return buildOnce(
    engine,
    { text, context: folder, dockerfile: null, target: null, args: {}, additions: null },
    options,
  )
}

async function pull(engine: DockerEngine, name: string, options: PrepareOptions): Promise<Image> {
  await refusePrivateRegistry(engine, name)
  options.onLog(`Pulling ${name}`)
  const query = { fromImage: /[:@][^/]*$/.test(name) ? name : `${name}:latest` }
  try {
    const { signal } = options
    await readMessages(
      await engine.docker.open('POST', '/images/create', { query, signal, timeoutMs: null }),
      options.onLog,
    )
  } catch (error) {
    options.signal.throwIfAborted()
    engine.log.warn({ error, image: name }, 'image could not be pulled')
    throw createImageMissingError(name, error)
  }
  const image = await findImage(engine, name)
  if (image) return image
  throw new SandboxUnavailable(`The Docker engine pulled ${name} but does not find it.`)
}

/** Refuses to pull from private networks before anything connects: untrusted tasks name the images. */
async function refusePrivateRegistry(engine: DockerEngine, name: string): Promise<void> {
  if (!(await leadsToPrivateRegistry(name, engine.buildHosts, resolveName))) return
  engine.log.warn({ image: name }, 'registry in a private network was refused; ASSAY_BUILD_HOSTS allows hosts')
  throw createImageMissingError(name)
}

/** Returns the same message for every cause, so that a task cannot find out which addresses and ports answer. */
const createImageMissingError = (name: string, cause?: unknown): SandboxUnavailable =>
  new SandboxUnavailable(
    `The Docker engine has no image ${name} and could not pull it. Bring it there with docker pull, docker load or docker import. A registry in a private network must be listed in ASSAY_BUILD_HOSTS.`,
    { cause },
  )

/** Lists the images of `COPY --from`, which the engine would pull by itself during the build. */
const listCopySources = ({ stages }: Dockerfile): string[] =>
  stages
    .flatMap(({ instructions }) => instructions)
    .flatMap(({ flags }) => flags)
    .flatMap(({ name, value }) => (name === 'from' && value !== null ? [value] : []))

async function buildDockerfile(
  engine: DockerEngine,
  source: DockerfileSource,
  options: PrepareOptions,
): Promise<Image> {
  const text = await readFile(join(source.context, source.dockerfile), 'utf8').catch((error: Error) => {
    throw new SandboxUnavailable(`The Dockerfile cannot be read: ${error.message}`, { cause: error })
  })
  const dockerfile = readDockerfile(text)
  refuseDangers(dockerfile, source.args)
  refuseRemoteAdd(dockerfile)
  const classic = toClassicDockerfile(text, dockerfile, { keepCopies: false })
  for (const name of listCopySources(dockerfile)) await refusePrivateRegistry(engine, name)
  for (const name of listBaseNames(dockerfile, source)) await pullBase(engine, dockerfile, name, options)
  return buildOnce(
    engine,
    { ...source, text: classic.text, additions: classic.text === text ? null : classic },
    options,
  )
}

const IMAGE_NAME = /^[\w.:/@-]+$/

/** Pulls a base image before the build and checks it. The build then uses exactly this image. */
async function pullBase(
  engine: DockerEngine,
  { stages }: Dockerfile,
  name: string,
  options: PrepareOptions,
): Promise<void> {
  if (!IMAGE_NAME.test(name)) throw new SandboxUnsupported(`FROM ${JSON.stringify(name)} is not a valid image name.`)
  const { digest } = (await findImage(engine, name)) ?? (await pull(engine, name, options))
  const { Os, Architecture } = await readTriggerFreeImage(engine, digest, name)
  const mismatch = stages.find(
    ({ platform }) => platform !== null && !`${platform}/`.startsWith(`${Os}/${Architecture}/`),
  )
  if (mismatch)
    throw new SandboxUnsupported(`Line ${mismatch.line} of the Dockerfile: ${name} is for ${Os}/${Architecture}.`)
}

/** Reads the settings of an image. Throws if it has triggers, which are ONBUILD commands. */
async function readTriggerFreeImage(engine: DockerEngine, digest: string, name: string): Promise<InspectedImage> {
  const found = await inspectImage(engine, digest)
  if (!found) throw new SandboxUnavailable(`The Docker engine has lost ${name}.`)
  refuseTriggers(name, found.Config.OnBuild ?? [])
  return found
}

/** Builds an image once, also for concurrent requests. */
async function buildOnce(engine: DockerEngine, plan: BuildPlan, options: PrepareOptions): Promise<Image> {
  const parts = [
    plan.text,
    plan.dockerfile,
    plan.additions?.files ?? [],
    await computeTreeDigest(plan.context),
    plan.target,
    Object.entries(plan.args).sort(),
  ]
  const key = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  return findOrBuild(engine, plan, `${BUILT_PREFIX}${key}`, options)
}

async function findOrBuild(
  engine: DockerEngine,
  plan: BuildPlan,
  tag: string,
  options: PrepareOptions,
): Promise<Image> {
  const known = await findImage(engine, tag)
  if (known) {
    await recordUse(engine, known, options.isShared ?? false)
    return known
  }
  options.signal.throwIfAborted()
  const running = engine.images.get(tag)
  // Another builder of the same image may be canceled; then this one builds it.
  if (running) await running.catch(() => {})
  else await buildAndRegister(engine, plan, tag, options)
  return findOrBuild(engine, plan, tag, options)
}

/** Builds an image. Concurrent requests find the build in `engine.images` and wait for it. */
async function buildAndRegister(
  engine: DockerEngine,
  plan: BuildPlan,
  tag: string,
  options: PrepareOptions,
): Promise<void> {
  const building = buildImage(engine, plan, tag, options)
  engine.images.set(tag, building)
  try {
    await building
    await evictImages(engine).catch((error) => engine.log.warn({ error }, 'built images could not be evicted'))
  } finally {
    engine.images.delete(tag)
  }
}

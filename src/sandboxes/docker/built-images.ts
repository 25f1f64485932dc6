import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PrunedPath, PruneOptions } from '../../platform/data-folder.ts'
import type { Image } from '../sandbox.ts'
import { ignoring } from './client.ts'
import type { DockerEngine } from './engine.ts'

/** Prefix of the names of images that were built here. Others are never removed. */
export const BUILT_PREFIX = 'assay/'

type EngineFolder = Pick<DockerEngine, 'folder'>
/** The parts of an engine that remove images. They also work where sandboxes cannot run. */
type ImageEngine = Pick<DockerEngine, 'docker' | 'folder'>

/** Last use of a built image, stored as a file whose modification time is the time of that use. */
type ImageUse = { digest: string; isShared: boolean; usedAt: number }

const usesFolder = ({ folder }: EngineFolder): string => join(folder, 'uses')

export const isImageId = (id: unknown): boolean => typeof id === 'string' && /^sha256:[0-9a-f]{64}$/.test(id)

function usePath(engine: EngineFolder, digest: string): string {
  if (!isImageId(digest)) throw new Error('Invalid image id')
  return join(usesFolder(engine), digest.replace(':', '-'))
}

/** Records that an image was built or found for a build. `isShared` marks layers that other builds begin with. */
export async function recordUse(engine: EngineFolder, { digest }: Image, isShared: boolean): Promise<void> {
  await mkdir(usesFolder(engine), { recursive: true })
  await writeFile(usePath(engine, digest), isShared ? 'shared' : 'own')
}

/** Renews the time of the last use. A no-op for images that were not built here. */
export async function renewUse(engine: EngineFolder, { digest }: Image): Promise<void> {
  const now = new Date()
  if (isImageId(digest)) await utimes(usePath(engine, digest), now, now).catch(() => {})
}

async function listUses(engine: EngineFolder): Promise<ImageUse[]> {
  const names = await readdir(usesFolder(engine)).catch(() => [])
  return Promise.all(
    names.map(async (name) => {
      const path = join(usesFolder(engine), name)
      const [text, stats] = await Promise.all([
        readFile(path, 'utf8').catch(() => ''),
        stat(path).catch(() => undefined),
      ])
      return { digest: name.replace('-', ':'), isShared: text === 'shared', usedAt: stats?.mtimeMs ?? 0 }
    }),
  )
}

/**
 * Removes a built image and its layers, except those of other images. An image that a container uses is left alone.
 * Returns true if the image was removed.
 */
export async function discardImage(engine: ImageEngine, { digest }: Pick<Image, 'digest'>): Promise<boolean> {
  const { docker } = engine
  const inspect = () =>
    docker.call<{ RepoTags?: string[] | null }>('GET', `/images/${digest}/json`).catch(ignoring(404))
  const image = await inspect()
  // The folder of uses may also list images of other engines.
  if (image === undefined) return false
  const names = image.RepoTags ?? []
  if (!names.every((name) => name.startsWith(BUILT_PREFIX))) return false
  for (const name of names) await docker.call('DELETE', `/images/${name}`).catch(ignoring(404, 409))
  if ((await inspect()) !== undefined) return false
  if (isImageId(digest)) await rm(usePath(engine, digest), { force: true })
  return true
}

/** An image that was used within this time may be needed by a running stage or trial. */
const RECENT_MS = 3_600_000

/** Returns the images that may be evicted: least recently used first, shared ones after all others. */
export const orderForEviction = (uses: readonly ImageUse[], now: number): ImageUse[] =>
  uses
    .filter(({ usedAt }) => now - usedAt > RECENT_MS)
    .toSorted((one, other) => Number(one.isShared) - Number(other.isShared) || one.usedAt - other.usedAt)

/** Removes built images until the layers of all images of the engine fit into the limit. */
export async function evictImages(engine: DockerEngine): Promise<void> {
  const { imageDiskBytes, log } = engine
  if (imageDiskBytes === undefined) return
  let size = await readLayersSize(engine)
  for (const { digest } of orderForEviction(await listUses(engine), Date.now())) {
    if (size <= imageDiskBytes) return
    if (!(await discardImage(engine, { digest }))) continue
    const remaining = await readLayersSize(engine)
    log.info({ image: digest, freedBytes: size - remaining }, 'evicted a built image')
    size = remaining
  }
  if (size > imageDiskBytes)
    log.warn({ bytes: size, limit: imageDiskBytes }, 'images exceed their disk limit, and none can be evicted')
}

const readLayersSize = async ({ docker }: ImageEngine): Promise<number> =>
  (await docker.call<{ LayersSize?: number }>('GET', '/system/df')).LayersSize ?? 0

type MeasuredImage = { Id: string; Size: number; SharedSize: number }

/** Removes built images that were not used for the given time. Returns them, each with the size of its unshared layers. */
export async function pruneBuiltImages(
  folder: string,
  connect: () => Promise<ImageEngine['docker']>,
  { olderThanMs, isDryRun }: PruneOptions,
): Promise<PrunedPath[]> {
  const now = Date.now()
  const unused = orderForEviction(await listUses({ folder }), now).filter(({ usedAt }) => now - usedAt > olderThanMs)
  // Machines without an engine have no such images.
  if (unused.length === 0) return []
  const docker = await connect()
  const { Images } = await docker.call<{ Images: MeasuredImage[] | null }>('GET', '/system/df')
  const sizes = new Map(Images?.map(({ Id, Size, SharedSize }) => [Id, Size - SharedSize]))
  const pruned: PrunedPath[] = []
  for (const { digest } of unused.filter(({ digest }) => sizes.has(digest)))
    if (isDryRun || (await discardImage({ docker, folder }, { digest })))
      pruned.push({ path: digest, bytes: sizes.get(digest) ?? 0 })
  return pruned
}

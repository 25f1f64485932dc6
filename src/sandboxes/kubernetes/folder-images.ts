import { createHash, type Hash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { create as pack } from 'tar'
import { openScratchFolder } from '../kernel/ownership.ts'
import { computeTreeDigest, IMAGE_ARCHITECTURE } from '../kernel/prepare-image.ts'
import type { Mount } from '../sandbox.ts'
import type { Cluster, ImageBuilder } from './cluster.ts'
import type { ManifestContent } from './registry.ts'

/** Folder inside of an image that contains the files of a mounted folder. */
export const IMAGE_FOLDER = '/folder'

/** Names of the images from which a pod copies its mounted folders, by the position of the mount. */
export type FolderImages = ReadonlyMap<number, string>

/**
 * Finds or pushes an image for each mounted folder that never changes, such as the program of a harness, so that a node
 * fetches it once and not with every sandbox. Folders without an image are uploaded: all of them if no registry is
 * configured, and those that cannot be pushed.
 */
export async function prepareFolderImages(
  cluster: Pick<Cluster, 'builder' | 'folder' | 'log'>,
  mounts: readonly Mount[],
): Promise<FolderImages> {
  const images = new Map<number, string>()
  if (cluster.builder === undefined) return images
  for (const [index, mount] of mounts.entries()) {
    if (mount.kind !== 'folder' || !mount.isImmutable) continue
    const image = await findFolderImage(cluster.builder, cluster, mount.source)
    if (image !== undefined) images.set(index, image)
  }
  return images
}

/** Time after a failure in which no sandbox of this process tries again. */
const FAILURE_MEMORY_MS = 10 * 60_000

/** Finds or pushes the image of a folder, once for concurrent sandboxes. Returns undefined if that fails. */
async function findFolderImage(
  builder: ImageBuilder,
  { folder: temporary, log }: Pick<Cluster, 'folder' | 'log'>,
  source: string,
): Promise<string | undefined> {
  const { folderImages } = builder
  const running = folderImages.get(source)
  if (running) return running
  const preparing = prepareFolderImage(builder, temporary, source)
    .then((image) => {
      // The next sandbox asks the registry again, which may have deleted the image.
      folderImages.delete(source)
      return image
    })
    .catch((error: unknown) => {
      log.warn({ error, folder: source }, 'no image of a folder; it is uploaded to every pod')
      setTimeout(() => folderImages.delete(source), FAILURE_MEMORY_MS).unref()
      return undefined
    })
  folderImages.set(source, preparing)
  return preparing
}

async function prepareFolderImage(builder: ImageBuilder, temporary: string, source: string): Promise<string> {
  const { settings, registry, folderDigests } = builder
  const { repository, nodeRepository = repository } = settings
  const folder = await realpath(source)
  const digestOfFiles = folderDigests.get(folder) ?? (await computeTreeDigest(folder, { ignoresOwners: true }))
  folderDigests.set(folder, digestOfFiles)
  const tag = `folder-${digestOfFiles}`
  const found = await registry.findManifest(tag)
  const digest = found?.digest ?? (await pushFolder(builder, { folder, tag, temporary }))
  return `${nodeRepository}@${digest}`
}

type FolderToPush = { folder: string; tag: string; temporary: string }

/** Pushes an image whose only layer is a folder. Needs neither root nor a program. Returns its digest. */
async function pushFolder({ registry }: ImageBuilder, { folder, tag, temporary }: FolderToPush): Promise<string> {
  // Found out before the folder is compressed.
  await registry.requirePush()
  await using draft = await openScratchFolder(temporary)
  const layer = await writeLayer(folder, join(draft.path, 'layer.tar.gz'))
  const config = toBlob(JSON.stringify(describeImage(layer.contentDigest)))
  await registry.putBlob(layer)
  await registry.putBlob(config)
  return await registry.putManifest(tag, buildManifest(config, layer))
}

/** Writes a folder as the layer of an image. Owners are left out: the files belong to root. */
async function writeLayer(folder: string, file: string) {
  const content = createHash('sha256')
  const compressed = createHash('sha256')
  const tar = pack({ cwd: folder, portable: true, prefix: IMAGE_FOLDER.slice(1) }, ['.'])
  await pipeline(
    hashChunks(tar, content),
    createGzip(),
    (chunks) => hashChunks(chunks, compressed),
    createWriteStream(file),
  )
  const { size } = await stat(file)
  return {
    digest: `sha256:${compressed.digest('hex')}`,
    contentDigest: `sha256:${content.digest('hex')}`,
    size,
    open: () => createReadStream(file),
  }
}

async function* hashChunks(chunks: AsyncIterable<Uint8Array>, hash: Hash): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    hash.update(chunk)
    yield Buffer.from(chunk)
  }
}

function toBlob(text: string) {
  const bytes = Buffer.from(text)
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  return { digest, size: bytes.length, open: () => Readable.from([bytes]) }
}

const describeImage = (contentDigest: string) => ({
  os: 'linux',
  architecture: IMAGE_ARCHITECTURE,
  config: {},
  rootfs: { type: 'layers', diff_ids: [contentDigest] },
})

type BlobDescriptor = { digest: string; size: number }

const describeBlob = (kind: string, { digest, size }: BlobDescriptor) => ({
  mediaType: `application/vnd.oci.image.${kind}`,
  digest,
  size,
})

const buildManifest = (config: BlobDescriptor, layer: BlobDescriptor): ManifestContent => ({
  schemaVersion: 2,
  mediaType: 'application/vnd.oci.image.manifest.v1+json',
  config: describeBlob('config.v1+json', config),
  layers: [describeBlob('layer.v1.tar+gzip', layer)],
})

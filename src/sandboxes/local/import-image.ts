import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, mkdir, readdir, readFile, readlink, rm, stat, unlink } from 'node:fs/promises'
import { join, posix, resolve } from 'node:path'
import { z } from 'zod'
import { IMAGE_ARCHITECTURE } from '../kernel/prepare-image.ts'
import { runProgram, tryProgram } from '../kernel/run-program.ts'
import { findInside } from '../kernel/sandbox-path.ts'
import { SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import {
  createDraftPath,
  createLayer,
  DEFAULT_SETTINGS,
  ImageSettings,
  type ImageStore,
  nameImage,
  normalizeImageName,
  type StoredImage,
  saveImage,
  toImageSettings,
} from './image-store.ts'

/**
 * Imports an image: a root filesystem, the output of `docker save`, or an OCI layout, each as a folder or a tar. The same
 * content is stored once.
 */
export async function importImage(store: ImageStore, path: string, name: string | undefined): Promise<StoredImage> {
  const source = resolve(path)
  const found = await stat(source).catch((error: Error) => {
    throw new SandboxUnavailable(`The image ${source} cannot be read: ${error.message}`)
  })
  const image = found.isDirectory() ? await importFolder(store, source, name) : await importTar(store, source, name)
  if (name !== undefined) await nameImage(store, name, image)
  return image
}

async function importFolder(store: ImageStore, folder: string, name: string | undefined): Promise<StoredImage> {
  const archive = await readArchive(folder, name)
  if (archive) return importArchive(store, archive)
  const layer = await createLayer(store, async (draft) => {
    await runProgram('cp', ['-a', '--', `${folder}/.`, draft])
  })
  return saveImage(store, { ...DEFAULT_SETTINGS, layers: [layer] })
}

const ARCHIVE_FILES = ['manifest.json', 'oci-layout', './manifest.json', './oci-layout']

async function importTar(store: ImageStore, tar: string, name: string | undefined): Promise<StoredImage> {
  const { output } = await tryProgram('tar', ['-t', '-f', tar, ...ARCHIVE_FILES])
  if (output.trim() === '') {
    const layer = await createLayer(store, (draft) => unpack(tar, draft))
    return saveImage(store, { ...DEFAULT_SETTINGS, layers: [layer] })
  }
  const folder = join(store.folder, await createDraftPath())
  await mkdir(folder)
  try {
    await unpack(tar, folder)
    return await importFolder(store, folder, name)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Unpacks a tar into an empty folder. Safe: tar creates links that lead out of the folder last, and so writes nothing through them. */
async function unpack(tar: string, folder: string): Promise<void> {
  await runProgram('tar', ['-x', '--numeric-owner', '-p', '-C', folder, '-f', tar])
}

async function importArchive(store: ImageStore, archive: ImageArchive): Promise<StoredImage> {
  let layers: string[] = []
  for (const tar of archive.layers) {
    const below = layers.map((layer) => join(store.folder, layer))
    const layer = await createLayer(store, async (draft) => {
      await unpack(tar, draft)
      await convertWhiteouts(draft, below)
    })
    // A layer that occurs twice counts at its upper position, because overlay accepts each only once.
    layers = [layer, ...layers.filter((other) => other !== layer)]
  }
  return saveImage(store, { ...toImageSettings(archive.settings), layers, base: 'image' })
}

const WHITEOUT_PREFIX = '.wh.'
const OPAQUE_MARK = '.wh..wh..opq'

/**
 * Converts deletion marks. Archives mark a deleted file or a replaced folder by a special file name; overlay expects a
 * device with number 0 instead. `below` are the layers under this one, the topmost first.
 */
async function convertWhiteouts(layer: string, below: string[]): Promise<void> {
  const device = `${layer}.deleted`
  await runProgram('mknod', [device, 'c', '0', '0'])
  try {
    await convertFolder({ layer, below, device }, '', { isRecreated: false })
  } finally {
    await rm(device)
  }
}

type WhiteoutContext = { layer: string; below: string[]; device: string }

/** Converts the marks of a folder. A recreated folder hides everything that lower layers have in it. */
async function convertFolder(
  context: WhiteoutContext,
  folder: string,
  { isRecreated }: { isRecreated: boolean },
): Promise<void> {
  const path = join(context.layer, folder)
  const entries = await readdir(path, { withFileTypes: true })
  const marks = entries.map(({ name }) => name).filter((name) => name.startsWith(WHITEOUT_PREFIX))
  for (const name of marks) await unlink(join(path, name))

  const hidesBelow = isRecreated || marks.includes(OPAQUE_MARK)
  const deleted = new Set(
    marks.filter((name) => name !== OPAQUE_MARK).map((name) => name.slice(WHITEOUT_PREFIX.length)),
  )
  const hidden = hidesBelow ? await listVisible(context.below, folder) : []
  await createWhiteouts(context, folder, new Set([...deleted, ...hidden]))
  for (const entry of entries.filter((found) => found.isDirectory())) {
    await convertFolder(context, join(folder, entry.name), { isRecreated: hidesBelow || deleted.has(entry.name) })
  }
}

async function createWhiteouts(
  { layer, device }: WhiteoutContext,
  folder: string,
  deleted: Set<string>,
): Promise<void> {
  const existing = new Set([...(await readdir(join(layer, folder))), '', '.', '..'])
  for (const name of deleted) if (!existing.has(name)) await link(device, join(layer, folder, name))
}

/** Lists the names that the layers below show in a folder. An upper layer hides the same name of a lower one. */
async function listVisible(below: string[], folder: string): Promise<string[]> {
  const names = new Map<string, boolean>()
  for (const layer of below) {
    const found = await findInside(layer, folder)
    if (found === undefined) continue
    if (!found.stats.isDirectory()) break
    for (const entry of await readdir(found.path, { withFileTypes: true })) {
      if (!names.has(entry.name)) names.set(entry.name, !entry.isCharacterDevice())
    }
  }
  return [...names].filter(([, isVisible]) => isVisible).map(([name]) => name)
}

/** An image in an archive of another tool: the tars of its layers, the lowest first, and its configuration. */
type ImageArchive = { layers: string[]; settings: z.infer<typeof ImageSettings> }

const Descriptor = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  platform: z.object({ os: z.string(), architecture: z.string() }).nullish(),
})
const Index = z.object({ manifests: z.array(Descriptor) })
const Manifest = z.object({ config: Descriptor, layers: z.array(Descriptor) })
const SavedImages = z.array(
  z.object({ Config: z.string(), RepoTags: z.array(z.string()).nullish(), Layers: z.array(z.string()) }),
)
const Config = z.object({ os: z.string().default('linux'), architecture: z.string(), config: ImageSettings.nullish() })

/** Reads the output of `docker save` or an OCI layout. Returns undefined if the folder is neither. */
async function readArchive(folder: string, name: string | undefined): Promise<ImageArchive | undefined> {
  const saved = await readJson(folder, 'manifest.json')
  const images = SavedImages.safeParse(saved)
  if (images.success) return readSaved(folder, images.data, name)
  if ((await readJson(folder, 'oci-layout')) === undefined) return undefined
  return readLayout(folder, Index.parse(await readJson(folder, 'index.json')))
}

async function readSaved(folder: string, images: z.infer<typeof SavedImages>, name = ''): Promise<ImageArchive> {
  const named = images.filter(({ RepoTags }) =>
    RepoTags?.some((tag) => normalizeImageName(tag) === normalizeImageName(name)),
  )
  const [image, second] = images.length === 1 ? images : named
  if (!image || second) {
    const tags = images.flatMap(({ RepoTags }) => RepoTags ?? [])
    throw new SandboxUnsupported(`The archive has several images. Choose one by name: ${tags.join(', ')}.`)
  }
  const layers = await Promise.all(image.Layers.map((path) => requireFile(folder, path)))
  return { layers, settings: parseSettings(await readJson(folder, image.Config)) }
}

async function readLayout(folder: string, index: z.infer<typeof Index>): Promise<ImageArchive> {
  const matching = index.manifests.filter(({ platform }) => !platform || isForThisMachine(platform))
  const [first, second] = matching
  if (!first || second) throw new SandboxUnsupported(`The layout has ${matching.length} images for this machine.`)
  const found = await readBlob(folder, first.digest)
  const inner = Index.safeParse(found)
  if (inner.success) return readLayout(folder, inner.data)
  const { config, layers } = Manifest.parse(found)
  return {
    layers: await Promise.all(layers.map(({ digest }) => requireBlob(folder, digest))),
    settings: parseSettings(await readBlob(folder, config.digest)),
  }
}

const isForThisMachine = ({ os, architecture }: { os: string; architecture: string }): boolean =>
  os === 'linux' && architecture === IMAGE_ARCHITECTURE

function parseSettings(value: unknown): z.infer<typeof ImageSettings> {
  const { config, ...platform } = Config.parse(value)
  if (isForThisMachine(platform)) return config ?? {}
  throw new SandboxUnsupported(`The image is for ${platform.os}/${platform.architecture}, not for this machine.`)
}

async function readBlob(folder: string, digest: string): Promise<unknown> {
  return JSON.parse(await readFile(await requireBlob(folder, digest), 'utf8'))
}

/** Returns the path of a blob after verifying its digest. */
async function requireBlob(folder: string, digest: string): Promise<string> {
  const path = await requireFile(folder, `blobs/${digest.replace(':', '/')}`)
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  if (`sha256:${hash.digest('hex')}` === digest) return path
  throw new SandboxUnavailable(`The archive is damaged: the content of ${digest} has another digest.`)
}

async function readJson(folder: string, path: string): Promise<unknown> {
  const found = await findInside(folder, path)
  if (!found?.stats.isFile()) return undefined
  return JSON.parse(await readFile(found.path, 'utf8'))
}

/** Returns the path of a file. Links are resolved, because older archives store a repeated layer as a link to the first one. */
async function requireFile(folder: string, path: string): Promise<string> {
  const entry = await findInside(folder, path)
  const target = entry?.stats.isSymbolicLink() ? posix.join(posix.dirname(path), await readlink(entry.path)) : path
  const found = target === path ? entry : await findInside(folder, target)
  if (found?.stats.isFile()) return found.path
  throw new SandboxUnavailable(`The archive is damaged: ${path} is missing.`)
}

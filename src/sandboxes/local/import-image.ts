import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, mkdir, readdir, readFile, readlink, rm, stat, unlink } from 'node:fs/promises'
import { join, posix, resolve } from 'node:path'
import { z } from 'zod'
import { findInside } from '../kernel/inside.ts'
import { runProgram, tryProgram } from '../kernel/run-program.ts'
import { SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import {
  BARE,
  fullName,
  ImageSettings,
  type ImageStore,
  makeLayer,
  nameImage,
  newDraft,
  type StoredImage,
  saveImage,
  settingsOf,
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
  const image = found.isDirectory() ? await fromFolder(store, source, name) : await fromTar(store, source, name)
  if (name !== undefined) await nameImage(store, name, image)
  return image
}

async function fromFolder(store: ImageStore, folder: string, name: string | undefined): Promise<StoredImage> {
  const archive = await readArchive(folder, name)
  if (archive) return fromArchive(store, archive)
  const layer = await makeLayer(store, (draft) => copyAll(folder, draft))
  return saveImage(store, { ...BARE, layers: [layer] })
}

const copyAll = async (folder: string, draft: string): Promise<void> =>
  void (await runProgram('cp', ['-a', '--', `${folder}/.`, draft]))

const MARKS = ['manifest.json', 'oci-layout', './manifest.json', './oci-layout']

async function fromTar(store: ImageStore, tar: string, name: string | undefined): Promise<StoredImage> {
  const { output } = await tryProgram('tar', ['-t', '-f', tar, ...MARKS])
  if (output.trim() === '') {
    const layer = await makeLayer(store, (draft) => unpack(tar, draft))
    return saveImage(store, { ...BARE, layers: [layer] })
  }
  const folder = join(store.folder, await newDraft())
  await mkdir(folder)
  try {
    await unpack(tar, folder)
    return await fromFolder(store, folder, name)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Unpacks a tar into an empty folder. tar creates links that lead out last, so that nothing is written through them. */
const unpack = async (tar: string, folder: string): Promise<void> =>
  void (await runProgram('tar', ['-x', '--numeric-owner', '-p', '-C', folder, '-f', tar]))

async function fromArchive(store: ImageStore, archive: ImageArchive): Promise<StoredImage> {
  let layers: string[] = []
  for (const tar of archive.layers) {
    const below = layers.map((layer) => join(store.folder, layer))
    const layer = await makeLayer(store, async (draft) => {
      await unpack(tar, draft)
      await showDeletions(draft, below)
    })
    // A layer that occurs twice counts at its upper position, because overlay accepts each only once.
    layers = [layer, ...layers.filter((other) => other !== layer)]
  }
  return saveImage(store, { ...settingsOf(archive.settings), layers, base: 'image' })
}

const PREFIX = '.wh.'
const OPAQUE = '.wh..wh..opq'

/**
 * Converts deletion marks. Archives mark a deleted file or a replaced folder by a special file name; overlay expects a
 * device with number 0 instead. `below` are the layers under this one, the topmost first.
 */
async function showDeletions(layer: string, below: string[]): Promise<void> {
  const device = `${layer}.deleted`
  await runProgram('mknod', [device, 'c', '0', '0'])
  try {
    await showIn({ layer, below, device }, '', false)
  } finally {
    await rm(device)
  }
}

type Showing = { layer: string; below: string[]; device: string }

/** Shows a folder of a layer. `isNew` means that it was recreated after a deletion, so that nothing below shows through. */
async function showIn(context: Showing, folder: string, isNew: boolean): Promise<void> {
  const place = join(context.layer, folder)
  const entries = await readdir(place, { withFileTypes: true })
  const marks = entries.map(({ name }) => name).filter((name) => name.startsWith(PREFIX))
  for (const name of marks) await unlink(join(place, name))

  const hidesAll = isNew || marks.includes(OPAQUE)
  const deleted = new Set(marks.filter((name) => name !== OPAQUE).map((name) => name.slice(PREFIX.length)))
  const hidden = hidesAll ? await visibleIn(context.below, folder) : []
  await deleteNames(context, folder, new Set([...deleted, ...hidden]))
  for (const entry of entries.filter((found) => found.isDirectory())) {
    await showIn(context, join(folder, entry.name), hidesAll || deleted.has(entry.name))
  }
}

async function deleteNames({ layer, device }: Showing, folder: string, names: Set<string>): Promise<void> {
  const kept = new Set([...(await readdir(join(layer, folder))), '', '.', '..'])
  for (const name of names) if (!kept.has(name)) await link(device, join(layer, folder, name))
}

async function visibleIn(below: string[], folder: string): Promise<string[]> {
  const seen = new Map<string, boolean>()
  for (const layer of below) {
    const place = await findInside(layer, folder)
    if (place === undefined) continue
    if (!place.stats.isDirectory()) break
    for (const entry of await readdir(place.path, { withFileTypes: true })) {
      if (!seen.has(entry.name)) seen.set(entry.name, !entry.isCharacterDevice())
    }
  }
  return [...seen].filter(([, isThere]) => isThere).map(([name]) => name)
}

/** An image in an archive of another tool: the tars of its layers, the lowest first, and its configuration. */
type ImageArchive = { layers: string[]; settings: z.infer<typeof ImageSettings> }

const Descriptor = z.object({
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/),
  platform: z.object({ os: z.string(), architecture: z.string() }).nullish(),
})
const Index = z.object({ manifests: z.array(Descriptor) })
const Manifest = z.object({ config: Descriptor, layers: z.array(Descriptor) })
const Saved = z.array(
  z.object({ Config: z.string(), RepoTags: z.array(z.string()).nullish(), Layers: z.array(z.string()) }),
)
const Config = z.object({ os: z.string().default('linux'), architecture: z.string(), config: ImageSettings.nullish() })

const ARCHITECTURE: Partial<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

/** Reads the output of `docker save` or an OCI layout. Returns undefined if the folder is neither. */
async function readArchive(folder: string, name: string | undefined): Promise<ImageArchive | undefined> {
  const saved = await readJson(folder, 'manifest.json')
  const images = Saved.safeParse(saved)
  if (images.success) return readSaved(folder, images.data, name)
  if ((await readJson(folder, 'oci-layout')) === undefined) return undefined
  return readLayout(folder, Index.parse(await readJson(folder, 'index.json')))
}

async function readSaved(folder: string, images: z.infer<typeof Saved>, name = ''): Promise<ImageArchive> {
  const named = images.filter(({ RepoTags }) => RepoTags?.some((tag) => fullName(tag) === fullName(name)))
  const [image, second] = images.length === 1 ? images : named
  if (!image || second) {
    const tags = images.flatMap(({ RepoTags }) => RepoTags ?? [])
    throw new SandboxUnsupported(`The archive has several images. Choose one by name: ${tags.join(', ')}.`)
  }
  const layers = await Promise.all(image.Layers.map((path) => fileIn(folder, path)))
  return { layers, settings: settingsIn(await readJson(folder, image.Config)) }
}

async function readLayout(folder: string, index: z.infer<typeof Index>): Promise<ImageArchive> {
  const fitting = index.manifests.filter(({ platform }) => !platform || isOurs(platform))
  const [first, second] = fitting
  if (!first || second) throw new SandboxUnsupported(`The layout has ${fitting.length} images for this machine.`)
  const found = await readBlob(folder, first.digest)
  const inner = Index.safeParse(found)
  if (inner.success) return readLayout(folder, inner.data)
  const { config, layers } = Manifest.parse(found)
  return {
    layers: await Promise.all(layers.map(({ digest }) => blobIn(folder, digest))),
    settings: settingsIn(await readBlob(folder, config.digest)),
  }
}

const isOurs = ({ os, architecture }: { os: string; architecture: string }): boolean =>
  os === 'linux' && architecture === ARCHITECTURE[process.arch]

function settingsIn(value: unknown): z.infer<typeof ImageSettings> {
  const { config, ...platform } = Config.parse(value)
  if (isOurs(platform)) return config ?? {}
  throw new SandboxUnsupported(`The image is for ${platform.os}/${platform.architecture}, not for this machine.`)
}

async function readBlob(folder: string, digest: string): Promise<unknown> {
  return JSON.parse(await readFile(await blobIn(folder, digest), 'utf8'))
}

/** Returns the path of a blob after verifying its digest. */
async function blobIn(folder: string, digest: string): Promise<string> {
  const path = await fileIn(folder, `blobs/${digest.replace(':', '/')}`)
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  if (`sha256:${hash.digest('hex')}` === digest) return path
  throw new SandboxUnavailable(`The archive is damaged: the content of ${digest} has another digest.`)
}

async function readJson(folder: string, path: string): Promise<unknown> {
  const place = await findInside(folder, path)
  if (!place?.stats.isFile()) return undefined
  return JSON.parse(await readFile(place.path, 'utf8'))
}

/** Resolves links: older archives store a repeated layer as a link to the first one. */
async function fileIn(folder: string, path: string): Promise<string> {
  const place = await findInside(folder, path)
  const target = place?.stats.isSymbolicLink() ? posix.join(posix.dirname(path), await readlink(place.path)) : path
  const found = target === path ? place : await findInside(folder, target)
  if (found?.stats.isFile()) return found.path
  throw new SandboxUnavailable(`The archive is damaged: ${path} is missing.`)
}

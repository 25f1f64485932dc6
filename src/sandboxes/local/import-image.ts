import { mkdir, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { runProgram, tryProgram } from '../kernel/run-program.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { type ImageArchive, readArchive } from './image-archive.ts'
import { settingsOf } from './image-settings.ts'
import { BARE, type ImageStore, makeLayer, nameImage, newDraft, type StoredImage, saveImage } from './image-store.ts'
import { showDeletions } from './whiteout.ts'

/**
 * Takes in an image: a root filesystem, what `docker save` wrote, or an OCI layout, each a folder or a tar. The same
 * content twice is one image.
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

/** Into an empty folder, where tar makes links that lead out last of all: nothing is written through one. */
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

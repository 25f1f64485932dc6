import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Image } from '../sandbox.ts'
import { removeWithBuildah } from './buildah.ts'
import { type ImageStore, listImages } from './image-store.ts'
import { removeFolder, type StoreHost } from './reap.ts'

/** Removes a built image with its layers, except those of other images. Imported and pulled images are left alone. */
export async function discardImage(host: StoreHost, { digest }: Pick<Image, 'digest'>): Promise<void> {
  const { store } = host
  const keys = await listBuildKeys(store, digest)
  if (keys.length === 0) return
  const images = await listImages(store)
  const layersOfImage = images.filter((each) => each.digest === digest).flatMap(({ layers }) => layers)
  const layersOfOthers = new Set(images.filter((each) => each.digest !== digest).flatMap(({ layers }) => layers))
  for (const key of keys) await rm(join(store.folder, 'builds', key), { force: true })
  await rm(join(store.folder, 'images', `${encodeURIComponent(digest)}.json`), { force: true })
  const unused = layersOfImage.filter((layer) => !layersOfOthers.has(layer))
  if (unused.some((layer) => !layer.startsWith(OWN_LAYERS))) await removeWithBuildah(store, keys)
  for (const layer of unused) if (layer.startsWith(OWN_LAYERS)) await removeFolder(host, layer)
}

/** Prefix of the layers of our own builder. Others belong to buildah. */
const OWN_LAYERS = 'layers/'

/** Lists the keys of the builds whose result is this image. */
async function listBuildKeys(store: ImageStore, digest: string): Promise<string[]> {
  const folder = join(store.folder, 'builds')
  const names = await readdir(folder)
  const digests = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8').catch(() => '')))
  return names.filter((_, index) => digests[index] === digest)
}

import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Image } from '../sandbox.ts'
import { removeWithBuildah } from './buildah.ts'
import { type ImageStore, listImages } from './image-store.ts'
import type { Host } from './machine.ts'
import { removeFolder } from './reap.ts'

/** Removes a built image with its layers, except those of other images. Imported and pulled images are left alone. */
export async function discardImage(host: Host, { digest }: Pick<Image, 'digest'>): Promise<void> {
  const { store } = host
  const keys = await listBuildKeys(store, digest)
  if (keys.length === 0) return
  const images = await listImages(store)
  const own = images.filter((each) => each.digest === digest).flatMap(({ layers }) => layers)
  const needed = new Set(images.filter((each) => each.digest !== digest).flatMap(({ layers }) => layers))
  for (const key of keys) await rm(join(store.folder, 'builds', key), { force: true })
  await rm(join(store.folder, 'images', `${encodeURIComponent(digest)}.json`), { force: true })
  const unused = own.filter((layer) => !needed.has(layer))
  if (unused.some((layer) => !layer.startsWith(LAYERS))) await removeWithBuildah(store, keys)
  for (const layer of unused) if (layer.startsWith(LAYERS)) await removeFolder(host, layer)
}

const LAYERS = 'layers/'

/** Lists the builds that ended with an image. */
async function listBuildKeys(store: ImageStore, digest: string): Promise<string[]> {
  const folder = join(store.folder, 'builds')
  const names = await readdir(folder)
  const digests = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8').catch(() => '')))
  return names.filter((_, at) => digests[at] === digest)
}

import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { createLog } from '../../../src/platform/log.ts'
import { listImages, localFolder, nameImage, openStore, saveImage } from '../../../src/sandboxes/local/image-store.ts'
import { createLocalProvider } from '../../../src/sandboxes/local.ts'
import type { Image } from '../../../src/sandboxes/sandbox.ts'
import { cacheFolder } from '../base-image.ts'

/**
 * Gives the local provider of a data folder an image, as `importRootfs` does. The import itself happens once: it copies and
 * hashes every file, which takes seconds of processor time, and sandboxes never change the layer of an image.
 */
export async function provideImage(dataFolder: string, rootfs: string, name: string): Promise<Image> {
  const imported = await openStore(localFolder(await importOnce(rootfs)))
  const store = await openStore(localFolder(dataFolder))
  const [image] = await listImages(imported)
  if (image === undefined) throw new Error(`The cache of ${rootfs} has no image.`)
  for (const layer of image.layers)
    await symlink(join(imported.folder, layer), join(store.folder, layer)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  const { digest: _, ...content } = image
  const saved = await saveImage(store, content)
  await nameImage(store, name, saved)
  return saved
}

/** Files that determine the result of an import. */
const IMPORT_CODE = ['local/image-store.ts', 'local/import-image.ts', 'kernel/tree-digest.ts']

/** Returns a data folder of the cache into which a root file system was imported. */
async function importOnce(rootfs: string): Promise<string> {
  const hash = createHash('sha256').update(rootfs)
  for (const file of IMPORT_CODE)
    hash.update(await readFile(new URL(`../../../src/sandboxes/${file}`, import.meta.url)))
  const folder = join(await cacheFolder(), `local-image-${hash.digest('hex').slice(0, 12)}`)
  if (existsSync(folder)) return folder
  const draft = await mkdtemp(`${folder}-`)
  const options = { dataFolder: draft, runtime: 'bwrap', allowHostBase: false, log: createLog('silent') } as const
  await createLocalProvider(options).importRootfs(rootfs)
  // Another process may have been faster.
  await rename(draft, folder).catch(() => rm(draft, { recursive: true }))
  return folder
}

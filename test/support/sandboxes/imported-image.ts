import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createLog } from '../../../src/platform/log.ts'
import { findImage, localFolder, nameImage, openStore, saveImage } from '../../../src/sandboxes/local/image-store.ts'
import { createLocalProvider } from '../../../src/sandboxes/local.ts'
import type { Image } from '../../../src/sandboxes/sandbox.ts'
import { cacheFolder } from '../base-image.ts'

const run = promisify(execFile)

/** Name of the image in the cache. */
const NAME = 'assay-test/imported:1'

/** Folder of buildah in the folder of the local provider. */
const BUILDAH = 'buildah'

/**
 * Gives the local provider of a data folder an image, as `importRootfs` does. The import itself happens once: it copies and
 * hashes every file, which takes seconds of processor time, and sandboxes never change the layer of an image. With `builds`,
 * buildah has the first image of the folder already, as after a build.
 */
export async function provideImage(
  dataFolder: string,
  rootfs: string,
  name: string,
  { builds = false }: { builds?: boolean } = {},
): Promise<Image> {
  const imported = await openStore(localFolder(await importOnce(rootfs)))
  const store = await openStore(localFolder(dataFolder))
  const image = await findImage(imported, NAME)
  if (image === undefined) throw new Error(`The cache of ${rootfs} has no image.`)
  for (const layer of image.layers)
    if (!existsSync(join(store.folder, layer)))
      await linkFolder(join(imported.folder, layer), join(store.folder, 'layers'))
  if (builds) await copyBuildah(join(imported.folder, BUILDAH), join(store.folder, BUILDAH))
  const { digest: _, ...content } = image
  const saved = await saveImage(store, content)
  await nameImage(store, name, saved)
  return saved
}

/** Files that determine the result of an import. */
const IMPORT_CODE = ['local/buildah.ts', 'local/image-store.ts', 'local/import-image.ts', 'kernel/prepare-image.ts']

/** Returns a data folder of the cache into which a root file system was imported. */
async function importOnce(rootfs: string): Promise<string> {
  const hash = createHash('sha256').update(rootfs)
  for (const file of IMPORT_CODE)
    hash.update(await readFile(new URL(`../../../src/sandboxes/${file}`, import.meta.url)))
  const folder = join(await cacheFolder(), `local-image-${hash.digest('hex').slice(0, 12)}`)
  if (existsSync(folder)) return folder
  const draft = await mkdtemp(`${folder}-`)
  const options = { dataFolder: draft, runtime: 'bwrap', allowHostBase: false, log: createLog('silent') } as const
  const provider = createLocalProvider(options)
  await provider.importRootfs(rootfs, NAME)
  const context = join(draft, 'context')
  await mkdir(context)
  await writeFile(join(context, 'Dockerfile'), `FROM ${NAME}\n`)
  await provider.prepare(
    { kind: 'dockerfile', context, dockerfile: 'Dockerfile', target: null, args: {} },
    { signal: new AbortController().signal, timeoutSec: 300, onLog: () => {} },
  )
  // Another process may have been faster.
  await rename(draft, folder).catch(() => rm(draft, { recursive: true }))
  return folder
}

/** Stores of buildah share the files of layers, which they never change, but not the files with which they are locked. */
async function copyBuildah(from: string, to: string): Promise<void> {
  if (existsSync(to) || !existsSync(from)) return
  const layers = 'overlay'
  await mkdir(to, { mode: 0o700 })
  await run('find', [
    from,
    '-mindepth',
    '1',
    '-maxdepth',
    '1',
    '!',
    '-name',
    layers,
    '-exec',
    'cp',
    '-a',
    '-t',
    to,
    '{}',
    '+',
  ])
  await linkFolder(join(from, layers), to)
}

/** Copies a folder with hard links, or really if the target is on another disk. */
async function linkFolder(from: string, into: string): Promise<void> {
  await run('cp', ['-a', '--link', from, into]).catch(() => run('cp', ['-a', from, into]))
}

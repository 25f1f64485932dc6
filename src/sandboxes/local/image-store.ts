import { createHash, randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, realpath, rename, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { measureBytes, type PrunedPath, type PruneOptions, readAgeMs } from '../../platform/data-folder.ts'
import { ignoreCode, parseOrUndefined } from '../../platform/errors.ts'
import { buildOwnedPrefix } from '../kernel/ownership.ts'
import { computeTreeDigest } from '../kernel/prepare-image.ts'
import { removeTree } from '../kernel/run-program.ts'
import { STANDARD_PATH } from '../kernel/shell.ts'
import { type Image, SandboxUnavailable } from '../sandbox.ts'

/** An image. `layers` are folders below the store, the topmost first; `binds` are folders of this machine. */
export type StoredImage = Image & { layers: string[]; binds?: string[] }

/** Folder of the local provider. Overlay paths are relative to it, and short. */
export type ImageStore = { folder: string }

/** Number of characters of a digest in the name of a layer. Overlay limits the length of all paths together. */
const LAYER_NAME_LENGTH = 24

/** Settings of an image without a configuration. */
export const DEFAULT_SETTINGS: Omit<Image, 'digest'> = {
  workdir: '/',
  user: 'root',
  entrypoint: [],
  command: [],
  base: 'image',
  env: { PATH: STANDARD_PATH },
}

/** Returns the folder of the store in a data folder. */
export const localFolder = (dataFolder: string): string => join(dataFolder, 'sandboxes', 'local')

/** Creates the folders of a store. Links are resolved once: runc and the records of sandboxes need the real path. */
export async function openStore(folder: string): Promise<ImageStore> {
  for (const name of ['images', 'layers', 'names', 'builds', 'drafts', 'run', 'records']) {
    await mkdir(join(folder, name), { recursive: true, mode: 0o700 })
  }
  return { folder: await realpath(folder) }
}

/** Folder of incomplete images and other temporary files, and the first part of their names. */
export const DRAFTS = { folder: 'drafts', kind: 'draft' }

/** Returns a new path below the store for an incomplete image. The name identifies the process that owns it. */
export const createDraftPath = async (): Promise<string> =>
  join(DRAFTS.folder, `${await buildOwnedPrefix(DRAFTS.kind)}${randomUUID()}`)

/** Stores a layer under the digest of its content. It is written to a draft and moved to its final path. */
export async function createLayer(store: ImageStore, fillDraft: (draft: string) => Promise<void>): Promise<string> {
  const draft = join(store.folder, await createDraftPath())
  await mkdir(draft)
  try {
    await fillDraft(draft)
    const layer = join('layers', (await computeTreeDigest(draft)).slice(0, LAYER_NAME_LENGTH))
    await rename(draft, join(store.folder, layer)).catch(ignoreCode('ENOTEMPTY', 'EEXIST')) // stored already
    return layer
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

export async function saveImage(store: ImageStore, image: Omit<StoredImage, 'digest'>): Promise<StoredImage> {
  const digest = `sha256:${createHash('sha256').update(JSON.stringify(image)).digest('hex')}`
  const stored = { ...image, digest }
  await writeAtomically(store, imagePath(store, digest), JSON.stringify(stored))
  return stored
}

export async function readImage(store: ImageStore, digest: string): Promise<StoredImage> {
  const text = await readFile(imagePath(store, digest), 'utf8').catch(() => undefined)
  if (text === undefined) throw new SandboxUnavailable(`Image ${digest} not found. Prepare it again.`)
  return { ...DEFAULT_SETTINGS, ...JSON.parse(text) }
}

/** Lists all images, imported, pulled and built. */
export async function listImages(store: ImageStore): Promise<StoredImage[]> {
  const names = await readdir(join(store.folder, 'images'))
  return Promise.all(names.map((name) => readImage(store, decodeURIComponent(name.replace(/\.json$/, '')))))
}

export async function nameImage(store: ImageStore, name: string, image: Image): Promise<void> {
  await writeAtomically(store, namePath(store, name), image.digest)
}

export async function findImage(store: ImageStore, name: string): Promise<StoredImage | undefined> {
  const digest = await readFile(namePath(store, name), 'utf8').catch(() => undefined)
  return digest === undefined ? undefined : readImage(store, digest)
}

/** Normalises an image name: `debian` and `docker.io/library/debian:latest` become `debian:latest`. */
export function normalizeImageName(name: string): string {
  const short = name.replace(/^(docker\.io|index\.docker\.io)\//, '').replace(/^library\//, '')
  return /[:@][^/]*$/.test(short) ? short : `${short}:latest`
}

const namePath = (store: ImageStore, name: string): string =>
  join(store.folder, 'names', encodeURIComponent(normalizeImageName(name)))

const imagePath = (store: ImageStore, digest: string): string =>
  join(store.folder, 'images', `${encodeURIComponent(digest)}.json`)

async function writeAtomically(store: ImageStore, path: string, text: string): Promise<void> {
  const draft = join(store.folder, await createDraftPath())
  await writeFile(draft, text)
  await rename(draft, path)
}

/** Interval at which the last use of a build is recorded, so that trials do not write each time. */
const USE_RECORD_INTERVAL_MS = 60 * 60 * 1000

/** Finds the result of a build by the digest of its inputs. Records the use, because unused builds are deleted. */
export async function findBuild(store: ImageStore, key: string): Promise<StoredImage | undefined> {
  const path = join(store.folder, 'builds', key)
  const digest = await readFile(path, 'utf8').catch(() => undefined)
  if (digest === undefined) return undefined
  const isRecent = ((await readAgeMs(path)) ?? 0) < USE_RECORD_INTERVAL_MS
  if (!isRecent) await utimes(path, new Date(), new Date())
  return readImage(store, digest)
}

/** Finds a build whose layers all exist. They may have been removed by hand. */
export async function findCompleteBuild(store: ImageStore, key: string): Promise<StoredImage | undefined> {
  const image = await findBuild(store, key)
  const layers = image?.layers.map((layer) => stat(join(store.folder, layer)).catch(() => undefined)) ?? []
  return (await Promise.all(layers)).every((stats) => stats?.isDirectory()) ? image : undefined
}

export async function saveBuild(store: ImageStore, key: string, image: Image): Promise<void> {
  await writeAtomically(store, join(store.folder, 'builds', key), image.digest)
}

const StringList = z.array(z.string()).nullish()

/** Runtime settings of an image in the format of Docker and OCI. */
export const ImageSettings = z.object({
  User: z.string().nullish(),
  WorkingDir: z.string().nullish(),
  Env: StringList,
  Entrypoint: StringList,
  Cmd: StringList,
  OnBuild: StringList,
})
export type ImageSettings = z.infer<typeof ImageSettings>

export const toImageSettings = (settings: ImageSettings): Omit<Image, 'digest' | 'base'> => ({
  workdir: settings.WorkingDir || '/',
  user: settings.User || 'root',
  env: Object.fromEntries((settings.Env ?? []).map(splitVariable)),
  entrypoint: settings.Entrypoint ?? [],
  command: settings.Cmd ?? [],
})

function splitVariable(text: string): [string, string] {
  const at = text.indexOf('=')
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}

/** Minimum age of an unused build. No sandbox runs longer, so a build of this age is not in use. */
const UNUSED_MS_MIN = 8 * 24 * 60 * 60 * 1000

/**
 * Deletes builds that were not used for some time, then images without a name or a build, then layers without an image. An
 * interrupted run leaves only data that the next one deletes. Images with a name remain, because a user may have imported
 * them.
 */
export async function pruneLocalImages(dataFolder: string, options: PruneOptions): Promise<PrunedPath[]> {
  const folder = localFolder(dataFolder)
  const unusedMs = Math.max(options.olderThanMs, UNUSED_MS_MIN) + USE_RECORD_INTERVAL_MS
  const { isDryRun } = options
  const builds = await splitByAge(join(folder, 'builds'), unusedMs)
  if (!isDryRun) for (const name of builds.old) await rm(join(folder, 'builds', name), { force: true })
  const named = await readTexts(join(folder, 'names'), await listNames(join(folder, 'names')))
  const used = new Set([...named, ...(await readTexts(join(folder, 'builds'), builds.young))])
  const images = await splitImages(join(folder, 'images'), used)
  if (!isDryRun) for (const name of images.unused) await rm(join(folder, 'images', name), { force: true })
  return pruneLayers(folder, images.layers, isDryRun)
}

const listNames = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])

const readTexts = async (folder: string, names: readonly string[]): Promise<string[]> =>
  Promise.all(names.map((name) => readFile(join(folder, name), 'utf8').catch(() => '')))

async function splitByAge(folder: string, unusedMs: number): Promise<{ old: string[]; young: string[] }> {
  const old: string[] = []
  const young: string[] = []
  for (const name of await listNames(folder)) {
    const ageMs = (await readAgeMs(join(folder, name))) ?? 0
    if (ageMs > unusedMs) old.push(name)
    else young.push(name)
  }
  return { old, young }
}

/** Time within which a process that has stored an image also stores its name or build. Younger images are kept. */
const STORING_TIME_MS = 24 * 60 * 60 * 1000

async function splitImages(folder: string, used: ReadonlySet<string>) {
  const unused: string[] = []
  const layers = new Set<string>()
  for (const name of await listNames(folder)) {
    const path = join(folder, name)
    const text = await readFile(path, 'utf8').catch(() => '')
    const image = parseOrUndefined((): Pick<StoredImage, 'digest' | 'layers'> => JSON.parse(text))
    const isNew = ((await readAgeMs(path)) ?? 0) < STORING_TIME_MS
    if (image && !used.has(image.digest) && !isNew) unused.push(name)
    else for (const layer of image?.layers ?? []) layers.add(layer)
  }
  return { unused, layers }
}

/** Deletes unused layers by their change time, because their modification time is the one in the image. */
async function pruneLayers(folder: string, used: ReadonlySet<string>, isDryRun: boolean): Promise<PrunedPath[]> {
  const pruned: PrunedPath[] = []
  for (const name of await listNames(join(folder, 'layers'))) {
    const path = join(folder, 'layers', name)
    const stats = await stat(path).catch(() => undefined)
    const isNew = !stats || Date.now() - stats.ctimeMs < STORING_TIME_MS
    if (isNew || used.has(join('layers', name))) continue
    pruned.push({ path, bytes: await measureBytes(path).catch(() => 0) })
    if (!isDryRun) await removeLayer(folder, path)
  }
  return pruned
}

/** Moves a layer away before it is deleted, so that a builder never finds a part of one. Drafts of dead processes are reaped. */
async function removeLayer(folder: string, path: string): Promise<void> {
  const draft = join(folder, await createDraftPath())
  await mkdir(join(folder, DRAFTS.folder), { recursive: true, mode: 0o700 })
  await rename(path, draft)
  await removeTree(draft)
}

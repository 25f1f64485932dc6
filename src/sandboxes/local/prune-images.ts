import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { measureBytes, type PrunedPath, type PruneOptions, readAgeMs } from '../../platform/data-folder.ts'
import { DRAFTS, newDraft, USE_RECORDED_MS } from './image-store.ts'
import { removeTree } from './remove-tree.ts'

/** Longer than any sandbox runs, so that no running sandbox uses a build that was last used before. */
const UNUSED_MS_MIN = 8 * 24 * 60 * 60 * 1000

/**
 * Deletes builds that were not used for some time, then images without a name or a build, then layers without an image. An
 * interrupted run leaves only data that the next one deletes. Images with a name remain, because a user may have imported
 * them.
 */
export async function pruneLocalImages(dataFolder: string, options: PruneOptions): Promise<PrunedPath[]> {
  const folder = join(dataFolder, 'sandboxes', 'local')
  const unusedMs = Math.max(options.olderThanMs, UNUSED_MS_MIN) + USE_RECORDED_MS
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
  const [old, young]: [string[], string[]] = [[], []]
  for (const name of await listNames(folder)) {
    const isOld = ((await readAgeMs(join(folder, name))) ?? 0) > unusedMs
    ;(isOld ? old : young).push(name)
  }
  return { old, young }
}

/** Time in which a process that has just stored an image also stores its name or build. */
const STORING_MS = 24 * 60 * 60 * 1000

async function splitImages(folder: string, used: ReadonlySet<string>) {
  const unused: string[] = []
  const layers = new Set<string>()
  for (const name of await listNames(folder)) {
    const path = join(folder, name)
    const image = parseImage(await readFile(path, 'utf8').catch(() => ''))
    const isNew = ((await readAgeMs(path)) ?? 0) < STORING_MS
    if (image && !used.has(image.digest) && !isNew) unused.push(name)
    else for (const layer of image?.layers ?? []) layers.add(layer)
  }
  return { unused, layers }
}

function parseImage(text: string): { digest: string; layers: string[] } | undefined {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** The change time counts, because the files of a layer keep the times that they have in the image. */
async function pruneLayers(folder: string, used: ReadonlySet<string>, isDryRun: boolean): Promise<PrunedPath[]> {
  const pruned: PrunedPath[] = []
  for (const name of await listNames(join(folder, 'layers'))) {
    const path = join(folder, 'layers', name)
    const stats = await stat(path).catch(() => undefined)
    if (used.has(join('layers', name)) || !stats || Date.now() - stats.ctimeMs < STORING_MS) continue
    pruned.push({ path, bytes: await measureBytes(path).catch(() => 0) })
    if (!isDryRun) await removeLayer(folder, path)
  }
  return pruned
}

/** Moves a layer away before it is deleted, so that a builder never finds a part of one. Drafts of dead processes are reaped. */
async function removeLayer(folder: string, path: string): Promise<void> {
  const draft = join(folder, await newDraft())
  await mkdir(join(folder, DRAFTS.folder), { recursive: true, mode: 0o700 })
  await rename(path, draft)
  await removeTree(draft)
}

import { randomUUID } from 'node:crypto'
import { link, lstat, mkdir, opendir, readlink, unlink } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { staysInside } from '../kernel/collect.ts'
import type { Holder } from '../kernel/holder.ts'
import { findInside, type Place, partsOf } from '../kernel/inside.ts'
import { LOOKUP_SETTINGS, listUnsafePaths } from '../kernel/unsafe-files.ts'
import { type SandboxSpec, SandboxUnsupported, type Seed } from '../sandbox.ts'
import { type Files, refuseLinks, rootOf } from './files.ts'
import type { Host } from './machine.ts'
import { type Left, leftOf } from './remains.ts'
import { line } from './shell.ts'

export type Seeding = { host: Host; holder: Holder; files: Files; imageDigest: string }

/** Before the files are mounted: layers that show what the earlier sandbox changed. */
export async function seedLayers(seeding: Seeding, seed: Seed): Promise<string[]> {
  if (seed.kind === 'image') return []
  const left = leftOf(seed.from)
  if (seed.kind === 'workspace')
    return (await canLayer(seeding, left, seed.paths)) ? copyPaths(seeding, left, seed.paths) : []
  if (left.imageDigest !== seeding.imageDigest) {
    throw new SandboxUnsupported('A snapshot can only be continued on the image that it was taken from.')
  }
  return copyAllBut(seeding, left, [...seed.without, ...(await listUnsafeFiles(seeding, left))])
}

/** Lists what the earlier sandbox left where a runtime opens files when the next one starts. */
async function listUnsafeFiles({ host }: Seeding, left: Left): Promise<string[]> {
  const unsafe = await listUnsafePaths(async (path) => {
    const stats = (await findInside(left.root, path))?.stats
    return stats && { isFile: stats.isFile(), isFolder: stats.isDirectory(), bytes: stats.size }
  })
  const changed = await Promise.all(
    left.files.changes.map((change) => findInside(changeRoot(host, left, change), LOOKUP_SETTINGS)),
  )
  return changed.some((place) => place !== undefined) ? [...unsafe, LOOKUP_SETTINGS] : unsafe
}

/** After they are mounted: what could not be shown by a layer. */
export async function seedCopies(seeding: Seeding, seed: Seed): Promise<void> {
  if (seed.kind === 'image') return
  const left = leftOf(seed.from)
  if (seed.kind === 'snapshot')
    return restoreProtected(seeding, [...seed.without, ...(await listUnsafeFiles(seeding, left))])
  if (!(await canLayer(seeding, left, seed.paths))) await replacePaths(seeding, left, seed.paths)
}

/** Whether the seed is made from files of the store alone, and needs no mount of the earlier sandbox. */
export async function isOnStore(host: Host, { seed, image }: SandboxSpec, left: Left): Promise<boolean> {
  if (left.files.disk !== undefined) return false
  return seed.kind !== 'workspace' || canLayer({ host, imageDigest: image.digest }, left, seed.paths)
}

/**
 * A layer of changes means the same on the same image only, and only when no folder above the path was changed too: that
 * may have been made anew, and then hides what the image has below it.
 */
async function canLayer(
  { host, imageDigest }: Pick<Seeding, 'host' | 'imageDigest'>,
  left: Left,
  paths: string[],
): Promise<boolean> {
  if (left.imageDigest !== imageDigest) return false
  const tops = paths
    .map(partsOf)
    .filter((parts) => parts.length > 1)
    .flatMap(([top = '']) => top)
  const changed = await Promise.all(
    left.files.changes.flatMap((change) => tops.map((top) => findInside(changeRoot(host, left, change), top))),
  )
  return changed.every((place) => place === undefined)
}

const changeRoot = (host: Host, left: Left, change: string): string => join(left.holder.root, host.store.folder, change)

/**
 * Links the files where both are on one filesystem: nothing writes to them any more. A file that has as many names as it
 * can have gets no other, and all of it is copied.
 */
function copyLine(left: Left, source: string, target: string): string {
  const copy = line('cp', '-a', '-T', '--', source, target)
  if (left.files.disk !== undefined) return copy
  const clear = line('rm', '-rf', '--', target)
  return `${line('cp', '-a', '--link', '-T', '--', source, target)} > /dev/null 2>&1 || { ${clear} && ${copy}; }`
}

async function copyPaths(seeding: Seeding, left: Left, paths: string[]): Promise<string[]> {
  return eachChange(seeding, left, async (source, target, change) => {
    for (const path of paths) {
      const parts = partsOf(path)
      if (!(await findInside(source, path))) continue
      const below = join(target, ...parts)
      await mkdir(dirname(below), { recursive: true })
      await seeding.holder.must(
        'Copying a workspace',
        copyLine(left, join(seeding.host.store.folder, change, ...parts), below),
      )
      const unfit = await listUnfit(below, parts.at(-1) ?? '.', true)
      await whiteOut(seeding, unfit, { layer: target, below: rootsBelow(seeding, left, change) })
    }
  })
}

async function copyAllBut(seeding: Seeding, left: Left, without: string[]): Promise<string[]> {
  const { host, holder } = seeding
  return eachChange(seeding, left, async (_source, target, change) => {
    await holder.must('Copying a snapshot', copyLine(left, join(host.store.folder, change), target))
    for (const path of without) {
      const place = await firstChange(target, path)
      if (place) await holder.must('Copying a snapshot', line('rm', '-rf', '--', place.path))
    }
  })
}

/** The path itself, or whatever stands where a folder above it should be. */
async function firstChange(layer: string, path: string): Promise<Place | undefined> {
  const parts = partsOf(path)
  for (let length = 1; length <= parts.length; length += 1) {
    const place = await findInside(layer, parts.slice(0, length).join('/'))
    if (place === undefined) return undefined
    if (length === parts.length || !place.stats.isDirectory()) return place
  }
  return undefined
}

type Fill = (source: string, target: string, change: string) => Promise<void>

async function eachChange({ host, files }: Seeding, left: Left, fill: Fill): Promise<string[]> {
  const layers: string[] = []
  for (const [index, change] of left.files.changes.entries()) {
    const target = join(files.folder, `seed-${index}`)
    await mkdir(target, { mode: 0o755 })
    await fill(changeRoot(host, left, change), target, change)
    layers.push(join('run', posix.basename(files.folder), `seed-${index}`))
  }
  return layers
}

async function replacePaths(seeding: Seeding, left: Left, paths: string[]): Promise<void> {
  for (const path of paths) await replacePath(seeding, left, path)
}

async function replacePath({ host, holder, files }: Seeding, left: Left, path: string): Promise<void> {
  const parts = partsOf(path)
  const root = rootOf(host, holder, files)
  await refuseLinks(root, parts.slice(0, -1).join('/'))
  const target = join(host.store.folder, files.root, ...parts)
  await holder.must('Copying a workspace', line('rm', '-rf', '--', target))
  if (!(await findInside(left.root, path))) return

  const source = join(host.store.folder, left.files.root, ...parts)
  const steps = [line('mkdir', '-p', '--', dirname(target)), line('cp', '-a', '-T', '--', source, target)]
  await holder.must('Copying a workspace', steps.join(' && '))
  for (const unfit of await listUnfit(join(root, ...parts), parts.at(-1) ?? '.', false)) await unlink(unfit)
}

/** A folder above a protected path may have been made anew, which hides the image's. */
async function restoreProtected({ host, holder, files }: Seeding, without: string[]): Promise<void> {
  for (const path of without) {
    for (const layer of files.layers) {
      const original = await findInside(join(host.store.folder, layer), path)
      if (!original?.stats.isDirectory() && !original?.stats.isFile()) continue
      if (await findInside(rootOf(host, holder, files), path)) break
      const target = join(host.store.folder, files.root, ...partsOf(path))
      await holder.must(
        'Restoring a protected path',
        `${line('mkdir', '-p', dirname(target))} && ${line('cp', '-a', '-T', '--', original.path, target)}`,
      )
      break
    }
  }
}

/**
 * What `collect` would leave out. In a layer, a device without a number says that something was deleted. Names may be any
 * bytes, and there may be millions: nothing is kept of those that fit.
 */
async function listUnfit(path: string, name: string, inLayer: boolean): Promise<Buffer[]> {
  const unfit: Buffer[] = []
  const look = async (place: Buffer, named: string): Promise<void> => {
    const stats = await lstat(place)
    if (stats.isFile()) return
    if (stats.isDirectory()) return walk(place, named)
    const isFit = stats.isSymbolicLink()
      ? staysInside(named, (await readlink(place, 'buffer')).toString('latin1'))
      : inLayer && stats.isCharacterDevice() && stats.rdev === 0
    if (!isFit) unfit.push(place)
  }
  const walk = async (folder: Buffer, named: string): Promise<void> => {
    for await (const entry of await openBuffers(folder)) {
      if (entry.isFile()) continue
      await look(Buffer.concat([folder, SLASH, entry.name]), `${named}/${entry.name.toString('latin1')}`)
    }
  }
  await look(Buffer.from(path), name)
  return unfit
}

const SLASH = Buffer.from('/')

type BufferEntry = { name: Buffer; isFile(): boolean }

/** The types of Node know names as text only. */
const openBuffers = (folder: Buffer): Promise<AsyncIterable<BufferEntry>> =>
  opendir(folder as unknown as string, { encoding: 'buffer' as BufferEncoding }) as unknown as Promise<
    AsyncIterable<BufferEntry>
  >

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
}

/** Fewer than the names that one file can have, on every filesystem. */
const NAMES_MAX = 30_000

/** The layers that a layer of changes is laid over. */
const rootsBelow = ({ host, files }: Seeding, left: Left, change: string): string[] => [
  ...left.files.changes.slice(left.files.changes.indexOf(change) + 1).map((other) => changeRoot(host, left, other)),
  ...files.layers.map((layer) => join(host.store.folder, layer)),
]

/**
 * Deletions all are one device under many names, as overlay itself makes them. Only where there is something to delete:
 * in a folder that no other layer has, overlay would list them.
 */
async function whiteOut(
  { holder, files }: Seeding,
  paths: Buffer[],
  { layer, below }: { layer: string; below: string[] },
): Promise<void> {
  const hiding: Buffer[] = []
  for (const path of paths) {
    await unlink(path)
    const inside = path.subarray(Buffer.byteLength(layer))
    if (await isInAny(below, inside)) hiding.push(path)
  }
  for (let first = 0; first < hiding.length; first += NAMES_MAX) {
    const device = join(files.folder, `deleted-${randomUUID()}`)
    await holder.must('Filtering a workspace', line('mknod', device, 'c', '0', '0'))
    for (const path of hiding.slice(first, first + NAMES_MAX)) await link(device, path)
  }
}

async function isInAny(roots: string[], inside: Buffer): Promise<boolean> {
  for (const root of roots) {
    const stats = await lstat(Buffer.concat([Buffer.from(root), inside])).catch(ignoreMissing)
    if (stats) return true
  }
  return false
}

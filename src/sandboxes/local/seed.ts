import { link, mkdir, readdir, readlink, unlink } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { SandboxUnsupported, type Seed } from '../sandbox.ts'
import { staysInside } from './collect.ts'
import { type Files, refuseLinks, rootOf } from './files.ts'
import type { Holder } from './holder.ts'
import { findInside, type Place, partsOf } from './inside.ts'
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
  return copyAllBut(seeding, left, seed.without)
}

/** After they are mounted: what could not be shown by a layer. */
export async function seedCopies(seeding: Seeding, seed: Seed): Promise<void> {
  if (seed.kind === 'image') return
  const left = leftOf(seed.from)
  if (seed.kind === 'snapshot') return restoreProtected(seeding, seed.without)
  if (!(await canLayer(seeding, left, seed.paths))) await replacePaths(seeding, left, seed.paths)
}

/**
 * A layer of changes means the same on the same image only, and only when no folder above the path was changed too: that
 * may have been made anew, and then hides what the image has below it.
 */
async function canLayer({ host, imageDigest }: Seeding, left: Left, paths: string[]): Promise<boolean> {
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

/** Links the files where both are on one filesystem: nothing writes to them any more. */
const copyWords = (left: Left): string[] => (left.files.disk === undefined ? ['cp', '-a', '--link'] : ['cp', '-a'])

async function copyPaths(seeding: Seeding, left: Left, paths: string[]): Promise<string[]> {
  return eachChange(seeding, left, async (source, target, change) => {
    for (const path of paths) {
      const parts = partsOf(path)
      if (!(await findInside(source, path))) continue
      const below = join(target, ...parts)
      await mkdir(dirname(below), { recursive: true })
      await seeding.holder.must(
        'Copying a workspace',
        line(...copyWords(left), '-T', '--', join(seeding.host.store.folder, change, ...parts), below),
      )
      await whiteOut(seeding, await listUnfit(below, parts.at(-1) ?? '.', true))
    }
  })
}

async function copyAllBut(seeding: Seeding, left: Left, without: string[]): Promise<string[]> {
  const { host, holder } = seeding
  return eachChange(seeding, left, async (_source, target, change) => {
    await holder.must(
      'Copying a snapshot',
      line(...copyWords(left), '-T', '--', join(host.store.folder, change), target),
    )
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

/** What `collect` would leave out. In a layer, a device without a number says that something was deleted. */
async function listUnfit(path: string, name: string, inLayer: boolean): Promise<string[]> {
  const place = await findInside(path, '.')
  if (place === undefined) return []
  const { stats } = place
  if (stats.isFile()) return []
  if (stats.isSymbolicLink()) return staysInside(name, await readlink(path)) ? [] : [path]
  if (!stats.isDirectory()) return inLayer && stats.isCharacterDevice() && stats.rdev === 0 ? [] : [path]
  const inner = await Promise.all(
    (await readdir(path)).map((entry) => listUnfit(join(path, entry), posix.join(name, entry), inLayer)),
  )
  return inner.flat()
}

/** Deletions all are one device under many names, as overlay itself makes them. */
async function whiteOut({ holder, files }: Seeding, paths: string[]): Promise<void> {
  if (paths.length === 0) return
  const device = join(files.folder, 'deleted')
  await holder.must('Filtering a workspace', `[ -e ${line(device)} ] || ${line('mknod', device, 'c', '0', '0')}`)
  for (const path of paths) {
    await unlink(path)
    await link(device, path)
  }
}

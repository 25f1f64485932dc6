import { randomUUID } from 'node:crypto'
import { link, lstat, mkdir, opendir, readlink, unlink } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { LOOKUP_SETTINGS, listUnsafePaths } from '../kernel/accounts.ts'
import { staysInside } from '../kernel/collect.ts'
import { findInside, type HostPath, toPathParts } from '../kernel/inside.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import { type BaseFilesystem, type SandboxSpec, SandboxUnsupported } from '../sandbox.ts'
import { refuseLinks, rootOf, type SandboxFiles } from './files.ts'
import type { Host } from './machine.ts'
import { line } from './shell.ts'
import { requireStoppedFiles, type StoppedFiles } from './stopped-sandbox.ts'

export type BaseContext = { host: Host; holder: NamespaceProcess; files: SandboxFiles; imageDigest: string }

/** Returns the layers with the changes of the earlier sandbox. Called before the files are mounted. */
export async function listBaseLayers(context: BaseContext, seed: BaseFilesystem): Promise<string[]> {
  if (seed.kind === 'image') return []
  const left = requireStoppedFiles(seed.from)
  if (seed.kind === 'workspace')
    return (await canLayer(context, left, seed.paths)) ? copyPaths(context, left, seed) : []
  if (left.imageDigest !== context.imageDigest) {
    throw new SandboxUnsupported('A snapshot can only be continued on the image that it was taken from.')
  }
  return copyAllBut(context, left, [...seed.without, ...(await listUnsafeFiles(context, left))])
}

/** Lists unsafe files of the earlier sandbox at the paths that a runtime opens when the next sandbox starts. */
async function listUnsafeFiles({ host }: BaseContext, left: StoppedFiles): Promise<string[]> {
  const unsafe = await listUnsafePaths(async (path) => {
    const stats = (await findInside(left.root, path))?.stats
    return stats && { isFile: stats.isFile(), isFolder: stats.isDirectory(), bytes: stats.size }
  })
  const changed = await Promise.all(
    left.files.changes.map((change) => findInside(changeRoot(host, left, change), LOOKUP_SETTINGS)),
  )
  return changed.some((place) => place !== undefined) ? [...unsafe, LOOKUP_SETTINGS] : unsafe
}

/** Copies files that could not be included as a layer. Called after the files are mounted. */
export async function copyBaseFiles(context: BaseContext, seed: BaseFilesystem): Promise<void> {
  if (seed.kind === 'image') return
  const left = requireStoppedFiles(seed.from)
  if (seed.kind === 'snapshot')
    return restoreProtected(context, [...seed.without, ...(await listUnsafeFiles(context, left))])
  if (!(await canLayer(context, left, seed.paths))) await replacePaths(context, left, seed)
}

/** Reports whether the base filesystem is made from files of the store alone, without mounting the earlier sandbox. */
export async function isOnStore(
  host: Host,
  { baseFilesystem, image }: SandboxSpec,
  left: StoppedFiles,
): Promise<boolean> {
  if (left.files.disk !== undefined) return false
  return (
    baseFilesystem.kind !== 'workspace' || canLayer({ host, imageDigest: image.digest }, left, baseFilesystem.paths)
  )
}

/**
 * Reports whether paths can be taken from the layers of changes. This requires the same image, and no change to a
 * folder above a path: a recreated folder hides what the image has below it.
 */
async function canLayer(
  { host, imageDigest }: Pick<BaseContext, 'host' | 'imageDigest'>,
  left: StoppedFiles,
  paths: string[],
): Promise<boolean> {
  if (left.imageDigest !== imageDigest) return false
  const tops = paths
    .map(toPathParts)
    .filter((parts) => parts.length > 1)
    .flatMap(([top = '']) => top)
  const changed = await Promise.all(
    left.files.changes.flatMap((change) => tops.map((top) => findInside(changeRoot(host, left, change), top))),
  )
  return changed.every((place) => place === undefined)
}

const changeRoot = (host: Host, left: StoppedFiles, change: string): string =>
  join(left.holder.root, host.store.folder, change)

/**
 * Hard-links the files on the same filesystem, because they are never written again. When a file has reached the
 * maximum number of links, everything is copied.
 */
function copyLine(left: StoppedFiles, source: string, target: string): string {
  const copy = line('cp', '-a', '-T', '--', source, target)
  if (left.files.disk !== undefined) return copy
  const clear = line('rm', '-rf', '--', target)
  return `${line('cp', '-a', '--link', '-T', '--', source, target)} > /dev/null 2>&1 || { ${clear} && ${copy}; }`
}

type WorkspaceBase = Extract<BaseFilesystem, { kind: 'workspace' }>

async function copyPaths(
  context: BaseContext,
  left: StoppedFiles,
  { paths, without = [] }: WorkspaceBase,
): Promise<string[]> {
  return eachChange(context, left, async (source, target, change) => {
    for (const path of paths) {
      const parts = toPathParts(path)
      if (!(await findInside(source, path))) continue
      const below = join(target, ...parts)
      await mkdir(dirname(below), { recursive: true })
      await context.holder.runOrThrow(
        'Copying a workspace',
        copyLine(left, join(context.host.store.folder, change, ...parts), below),
      )
      await removePaths(context, { visible: target, inside: target }, without)
      const unfit = await listUnfit(below, parts.at(-1) ?? '.', true)
      await whiteOut(context, unfit, { layer: target, below: listLayersBelow(context, left, change) })
    }
  })
}

async function copyAllBut(context: BaseContext, left: StoppedFiles, without: string[]): Promise<string[]> {
  const { host, holder } = context
  return eachChange(context, left, async (_source, target, change) => {
    await holder.runOrThrow('Copying a snapshot', copyLine(left, join(host.store.folder, change), target))
    for (const path of without) {
      const place = await firstChange(target, path)
      if (place) await holder.runOrThrow('Copying a snapshot', line('rm', '-rf', '--', place.path))
    }
  })
}

/** Finds the path itself, or the file at the place of one of its parent folders. */
async function firstChange(layer: string, path: string): Promise<HostPath | undefined> {
  const parts = toPathParts(path)
  for (let length = 1; length <= parts.length; length += 1) {
    const place = await findInside(layer, parts.slice(0, length).join('/'))
    if (place === undefined) return undefined
    if (length === parts.length || !place.stats.isDirectory()) return place
  }
  return undefined
}

type Fill = (source: string, target: string, change: string) => Promise<void>

async function eachChange({ host, files }: BaseContext, left: StoppedFiles, fill: Fill): Promise<string[]> {
  const layers: string[] = []
  for (const [index, change] of left.files.changes.entries()) {
    const target = join(files.folder, `seed-${index}`)
    await mkdir(target, { mode: 0o755 })
    await fill(changeRoot(host, left, change), target, change)
    layers.push(join('run', posix.basename(files.folder), `seed-${index}`))
  }
  return layers
}

async function replacePaths(
  context: BaseContext,
  left: StoppedFiles,
  { paths, without = [] }: WorkspaceBase,
): Promise<void> {
  for (const path of paths) await replacePath(context, left, path)
  const { host, holder, files } = context
  const root = { visible: rootOf(host, holder, files), inside: join(host.store.folder, files.root) }
  await removePaths(context, root, without)
}

/** A folder as this process sees it, and as the namespace process does. */
type NamespaceFolder = { visible: string; inside: string }

/** Removes paths below a folder. A path behind a link is left alone. */
async function removePaths({ holder }: BaseContext, folder: NamespaceFolder, paths: readonly string[]): Promise<void> {
  for (const path of paths)
    if (await findInside(folder.visible, path))
      await holder.runOrThrow(
        'Filtering a workspace',
        line('rm', '-rf', '--', join(folder.inside, ...toPathParts(path))),
      )
}

async function replacePath({ host, holder, files }: BaseContext, left: StoppedFiles, path: string): Promise<void> {
  const parts = toPathParts(path)
  const root = rootOf(host, holder, files)
  await refuseLinks(root, parts.slice(0, -1).join('/'))
  const target = join(host.store.folder, files.root, ...parts)
  await holder.runOrThrow('Copying a workspace', line('rm', '-rf', '--', target))
  if (!(await findInside(left.root, path))) return

  const source = join(host.store.folder, left.files.root, ...parts)
  const steps = [line('mkdir', '-p', '--', dirname(target)), line('cp', '-a', '-T', '--', source, target)]
  await holder.runOrThrow('Copying a workspace', steps.join(' && '))
  for (const unfit of await listUnfit(join(root, ...parts), parts.at(-1) ?? '.', false)) await unlink(unfit)
}

/** A folder above a protected path may have been recreated, which hides the image's. */
async function restoreProtected({ host, holder, files }: BaseContext, without: string[]): Promise<void> {
  for (const path of without) {
    for (const layer of files.layers) {
      const original = await findInside(join(host.store.folder, layer), path)
      if (!original?.stats.isDirectory() && !original?.stats.isFile()) continue
      if (await findInside(rootOf(host, holder, files), path)) break
      const target = join(host.store.folder, files.root, ...toPathParts(path))
      await holder.runOrThrow(
        'Restoring a protected path',
        `${line('mkdir', '-p', dirname(target))} && ${line('cp', '-a', '-T', '--', original.path, target)}`,
      )
      break
    }
  }
}

/**
 * Lists files that `collect` would leave out. In a layer, a device without a number marks a deletion. Names may be any
 * bytes, and there may be millions, so files that pass are not stored.
 */
async function listUnfit(path: string, name: string, inLayer: boolean): Promise<Buffer[]> {
  const unfit: Buffer[] = []
  const visit = async (place: Buffer, named: string): Promise<void> => {
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
      await visit(Buffer.concat([folder, SLASH, entry.name]), `${named}/${entry.name.toString('latin1')}`)
    }
  }
  await visit(Buffer.from(path), name)
  return unfit
}

const SLASH = Buffer.from('/')

type RawFileEntry = { name: Buffer; isFile(): boolean }

/** Lists names as bytes. Node's types declare names as text only. */
const openBuffers = (folder: Buffer): Promise<AsyncIterable<RawFileEntry>> =>
  opendir(folder as unknown as string, { encoding: 'buffer' as BufferEncoding }) as unknown as Promise<
    AsyncIterable<RawFileEntry>
  >

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
}

/** Number of hard links that every filesystem supports. */
const NAMES_MAX = 30_000

/** Layers below a layer of changes. */
const listLayersBelow = ({ host, files }: BaseContext, left: StoppedFiles, change: string): string[] => [
  ...left.files.changes.slice(left.files.changes.indexOf(change) + 1).map((other) => changeRoot(host, left, other)),
  ...files.layers.map((layer) => join(host.store.folder, layer)),
]

/**
 * Creates deletion marks: hard links to one device, as overlay itself does. Only for names that a lower layer has:
 * in a folder that no other layer has, overlay would list the marks as files.
 */
async function whiteOut(
  { holder, files }: BaseContext,
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
    await holder.runOrThrow('Filtering a workspace', line('mknod', device, 'c', '0', '0'))
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

import { randomUUID } from 'node:crypto'
import { link, lstat, mkdir, readlink, unlink } from 'node:fs/promises'
import { dirname, join, posix } from 'node:path'
import { ignoreCode } from '../../platform/errors.ts'
import { LOOKUP_SETTINGS, listUnsafePaths } from '../kernel/accounts.ts'
import { openFolderAsBytes } from '../kernel/changes.ts'
import { staysInside } from '../kernel/collect.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import { findInside, type HostPath, toPathParts } from '../kernel/sandbox-path.ts'
import { renderCommand } from '../kernel/shell.ts'
import { type BaseFilesystem, type SandboxSpec, SandboxUnsupported } from '../sandbox.ts'
import { refuseLinks, rootOf, type SandboxFiles } from './files.ts'
import type { Host } from './machine.ts'
import { requireStoppedFiles, type StoppedFiles } from './stopped-sandbox.ts'

type BaseContext = { host: Host; namespaceProcess: NamespaceProcess; files: SandboxFiles; imageDigest: string }

/** Creates layers with files of the earlier sandbox, and returns their paths. Called before the files are mounted. */
export async function createBaseLayers(context: BaseContext, base: BaseFilesystem): Promise<string[]> {
  if (base.kind === 'image') return []
  const stopped = requireStoppedFiles(base.from)
  if (base.kind === 'workspace')
    return (await canUseLayers(context, stopped, base.paths)) ? copyPaths(context, stopped, base) : []
  if (stopped.imageDigest !== context.imageDigest) {
    throw new SandboxUnsupported('A snapshot can only be continued on the image that it was taken from.')
  }
  return copyChangesExcept(context, stopped, [...base.without, ...(await listUnsafeFiles(context, stopped))])
}

/** Lists unsafe files of the earlier sandbox at the paths that a runtime opens when the next sandbox starts. */
async function listUnsafeFiles({ host }: BaseContext, stopped: StoppedFiles): Promise<string[]> {
  const unsafe = await listUnsafePaths(async (path) => {
    const stats = (await findInside(stopped.root, path))?.stats
    return stats && { isFile: stats.isFile(), isFolder: stats.isDirectory(), bytes: stats.size }
  })
  const changed = await Promise.all(
    stopped.files.changes.map((change) => findInside(toChangeFolder(host, stopped, change), LOOKUP_SETTINGS)),
  )
  return changed.some((found) => found !== undefined) ? [...unsafe, LOOKUP_SETTINGS] : unsafe
}

/** Copies files that could not be included as a layer. Called after the files are mounted. */
export async function copyBaseFiles(context: BaseContext, base: BaseFilesystem): Promise<void> {
  if (base.kind === 'image') return
  const stopped = requireStoppedFiles(base.from)
  if (base.kind === 'snapshot')
    return restoreFromImage(context, [...base.without, ...(await listUnsafeFiles(context, stopped))])
  if (!(await canUseLayers(context, stopped, base.paths))) await replacePaths(context, stopped, base)
}

/** Reports whether the base filesystem needs only files of the store, and no mount of the earlier sandbox. */
export async function usesStoreOnly(
  host: Host,
  { baseFilesystem, image }: SandboxSpec,
  stopped: StoppedFiles,
): Promise<boolean> {
  if (stopped.files.disk !== undefined) return false
  return (
    baseFilesystem.kind !== 'workspace' ||
    canUseLayers({ host, imageDigest: image.digest }, stopped, baseFilesystem.paths)
  )
}

/**
 * Reports whether paths can be taken from the layers of changes. This requires the same image. If a path lies deeper than
 * the top level, nothing in its top-level folder may have changed: a recreated parent hides what the image has below it.
 */
async function canUseLayers(
  { host, imageDigest }: Pick<BaseContext, 'host' | 'imageDigest'>,
  stopped: StoppedFiles,
  paths: string[],
): Promise<boolean> {
  if (stopped.imageDigest !== imageDigest) return false
  const tops = paths
    .map(toPathParts)
    .filter((parts) => parts.length > 1)
    .flatMap(([top = '']) => top)
  const changed = await Promise.all(
    stopped.files.changes.flatMap((change) =>
      tops.map((top) => findInside(toChangeFolder(host, stopped, change), top)),
    ),
  )
  return changed.every((found) => found === undefined)
}

const toChangeFolder = (host: Host, stopped: StoppedFiles, change: string): string =>
  join(stopped.namespaceProcess.root, host.store.folder, change)

/**
 * Builds the command that copies files. On the same filesystem they are hard-linked, because they are never written
 * again. If a file has reached the maximum number of links, everything is copied.
 */
function buildCopyCommand(stopped: StoppedFiles, source: string, target: string): string {
  const copy = renderCommand('cp', '-a', '-T', '--', source, target)
  if (stopped.files.disk !== undefined) return copy
  const clear = renderCommand('rm', '-rf', '--', target)
  return `${renderCommand('cp', '-a', '--link', '-T', '--', source, target)} > /dev/null 2>&1 || { ${clear} && ${copy}; }`
}

type WorkspaceBase = Extract<BaseFilesystem, { kind: 'workspace' }>

async function copyPaths(
  context: BaseContext,
  stopped: StoppedFiles,
  { paths, without = [] }: WorkspaceBase,
): Promise<string[]> {
  return copyEachChange(context, stopped, async (source, target, change) => {
    for (const path of paths) {
      const parts = toPathParts(path)
      if (!(await findInside(source, path))) continue
      const copy = join(target, ...parts)
      await mkdir(dirname(copy), { recursive: true })
      await context.namespaceProcess.runOrThrow(
        'Copying a workspace',
        buildCopyCommand(stopped, join(context.host.store.folder, change, ...parts), copy),
      )
      await removePaths(context, { visible: target, inside: target }, without)
      const uncollectable = await listUncollectable(copy, parts.at(-1) ?? '.', { isLayer: true })
      await whiteOut(context, uncollectable, { layer: target, below: listLayersBelow(context, stopped, change) })
    }
  })
}

async function copyChangesExcept(context: BaseContext, stopped: StoppedFiles, without: string[]): Promise<string[]> {
  const { host, namespaceProcess } = context
  return copyEachChange(context, stopped, async (_source, target, change) => {
    await namespaceProcess.runOrThrow(
      'Copying a snapshot',
      buildCopyCommand(stopped, join(host.store.folder, change), target),
    )
    for (const path of without) {
      const changed = await findFirstChange(target, path)
      if (changed)
        await namespaceProcess.runOrThrow('Copying a snapshot', renderCommand('rm', '-rf', '--', changed.path))
    }
  })
}

/** Finds the path itself, or a file that replaces one of its parent folders. */
async function findFirstChange(layer: string, path: string): Promise<HostPath | undefined> {
  const parts = toPathParts(path)
  for (let length = 1; length <= parts.length; length += 1) {
    const found = await findInside(layer, parts.slice(0, length).join('/'))
    if (found === undefined) return undefined
    if (length === parts.length || !found.stats.isDirectory()) return found
  }
  return undefined
}

/** Fills a new layer. `source`: folder of the earlier layer for this process. `change`: its path in the store. */
type FillLayer = (source: string, target: string, change: string) => Promise<void>

async function copyEachChange({ host, files }: BaseContext, stopped: StoppedFiles, fill: FillLayer): Promise<string[]> {
  const layers: string[] = []
  for (const [index, change] of stopped.files.changes.entries()) {
    const target = join(files.folder, `base-${index}`)
    await mkdir(target, { mode: 0o755 })
    await fill(toChangeFolder(host, stopped, change), target, change)
    layers.push(join('run', posix.basename(files.folder), `base-${index}`))
  }
  return layers
}

async function replacePaths(
  context: BaseContext,
  stopped: StoppedFiles,
  { paths, without = [] }: WorkspaceBase,
): Promise<void> {
  for (const path of paths) await replacePath(context, stopped, path)
  const { host, namespaceProcess, files } = context
  const root = { visible: rootOf(host, namespaceProcess, files), inside: join(host.store.folder, files.root) }
  await removePaths(context, root, without)
}

/** Path of a folder for this process, and for the namespace process. */
type NamespaceFolder = { visible: string; inside: string }

/** Removes paths below a folder. A path behind a link is left alone. */
async function removePaths(
  { namespaceProcess }: BaseContext,
  folder: NamespaceFolder,
  paths: readonly string[],
): Promise<void> {
  for (const path of paths)
    if (await findInside(folder.visible, path))
      await namespaceProcess.runOrThrow(
        'Filtering a workspace',
        renderCommand('rm', '-rf', '--', join(folder.inside, ...toPathParts(path))),
      )
}

async function replacePath(
  { host, namespaceProcess, files }: BaseContext,
  stopped: StoppedFiles,
  path: string,
): Promise<void> {
  const parts = toPathParts(path)
  const root = rootOf(host, namespaceProcess, files)
  await refuseLinks(root, parts.slice(0, -1).join('/'))
  const target = join(host.store.folder, files.root, ...parts)
  await namespaceProcess.runOrThrow('Copying a workspace', renderCommand('rm', '-rf', '--', target))
  if (!(await findInside(stopped.root, path))) return

  const source = join(host.store.folder, stopped.files.root, ...parts)
  const steps = [
    renderCommand('mkdir', '-p', '--', dirname(target)),
    renderCommand('cp', '-a', '-T', '--', source, target),
  ]
  await namespaceProcess.runOrThrow('Copying a workspace', steps.join(' && '))
  for (const uncollectable of await listUncollectable(join(root, ...parts), parts.at(-1) ?? '.', { isLayer: false }))
    await unlink(uncollectable)
}

/** Copies paths from the image that a recreated parent folder of the earlier sandbox would hide. */
async function restoreFromImage({ host, namespaceProcess, files }: BaseContext, paths: string[]): Promise<void> {
  for (const path of paths) {
    for (const layer of files.layers) {
      const original = await findInside(join(host.store.folder, layer), path)
      if (!original?.stats.isDirectory() && !original?.stats.isFile()) continue
      if (await findInside(rootOf(host, namespaceProcess, files), path)) break
      const target = join(host.store.folder, files.root, ...toPathParts(path))
      await namespaceProcess.runOrThrow(
        'Restoring a protected path',
        `${renderCommand('mkdir', '-p', dirname(target))} && ${renderCommand('cp', '-a', '-T', '--', original.path, target)}`,
      )
      break
    }
  }
}

/**
 * Lists files that `collect` would leave out. In a layer, a device without a number marks a deletion. Names may be any
 * bytes, and there may be millions, so files that pass are not stored.
 */
async function listUncollectable(path: string, name: string, { isLayer }: { isLayer: boolean }): Promise<Buffer[]> {
  const uncollectable: Buffer[] = []
  const visit = async (file: Buffer, archiveName: string): Promise<void> => {
    const stats = await lstat(file)
    if (stats.isFile()) return
    if (stats.isDirectory()) return walk(file, archiveName)
    const isCollectable = stats.isSymbolicLink()
      ? staysInside(archiveName, (await readlink(file, 'buffer')).toString('latin1'))
      : isLayer && stats.isCharacterDevice() && stats.rdev === 0
    if (!isCollectable) uncollectable.push(file)
  }
  const walk = async (folder: Buffer, archiveName: string): Promise<void> => {
    for await (const entry of await openFolderAsBytes(folder)) {
      if (entry.isFile()) continue
      await visit(Buffer.concat([folder, SLASH, entry.name]), `${archiveName}/${entry.name.toString('latin1')}`)
    }
  }
  await visit(Buffer.from(path), name)
  return uncollectable
}

const SLASH = Buffer.from('/')

const ignoreMissing = ignoreCode('ENOENT', 'ENOTDIR')

/** Number of hard links that every filesystem supports. */
const LINKS_MAX = 30_000

/** Lists the layers below a layer of changes. */
const listLayersBelow = ({ host, files }: BaseContext, stopped: StoppedFiles, change: string): string[] => [
  ...stopped.files.changes
    .slice(stopped.files.changes.indexOf(change) + 1)
    .map((other) => toChangeFolder(host, stopped, other)),
  ...files.layers.map((layer) => join(host.store.folder, layer)),
]

/**
 * Creates deletion marks: hard links to one device, as overlay itself does. Only for names that a lower layer has:
 * in a folder that no other layer has, overlay would list the marks as files.
 */
async function whiteOut(
  { namespaceProcess, files }: BaseContext,
  paths: Buffer[],
  { layer, below }: { layer: string; below: string[] },
): Promise<void> {
  const hidden: Buffer[] = []
  for (const path of paths) {
    await unlink(path)
    const inside = path.subarray(Buffer.byteLength(layer))
    if (await existsInAny(below, inside)) hidden.push(path)
  }
  for (let first = 0; first < hidden.length; first += LINKS_MAX) {
    const device = join(files.folder, `deleted-${randomUUID()}`)
    await namespaceProcess.runOrThrow('Filtering a workspace', renderCommand('mknod', device, 'c', '0', '0'))
    for (const path of hidden.slice(first, first + LINKS_MAX)) await link(device, path)
  }
}

async function existsInAny(roots: string[], inside: Buffer): Promise<boolean> {
  for (const root of roots) {
    const stats = await lstat(Buffer.concat([Buffer.from(root), inside])).catch(ignoreMissing)
    if (stats) return true
  }
  return false
}

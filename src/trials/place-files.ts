import { lstat, readFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { Readable } from 'node:stream'
import { discardContent } from '../harbor/archive.ts'
import { isWithin } from '../harbor/paths.ts'
import { readTarEntries, type TarEntry } from '../harbor/tar-reader.ts'
import { HarnessUnfit } from '../harnesses/harness.ts'
import { tarEnd, tarPadding } from '../sandboxes/kernel/tar-writer.ts'
import type { Mount, SandboxUpload, StoppedSandbox } from '../sandboxes/sandbox.ts'
import { VERIFIER_PATHS } from './base-filesystem.ts'
import { type FileOwnership, headerBlocks } from './tar.ts'
import type { ConfigurationFile } from './trial-request.ts'

/** Files of a configuration in a task's working directory, and the files of the task that they replace. */
export type PlacedFiles = {
  workdir: string
  files: readonly ConfigurationFile[]
  /** Absolute paths of the files. */
  paths: string[]
  /** Absolute paths of folders that the configuration creates. */
  newFolders: string[]
  originals: OriginalFile[]
}

/** A file or link of the task that a configuration replaces. `path` is absolute. */
export type OriginalFile = Pick<TarEntry, 'type' | 'mode' | 'uid' | 'gid' | 'mtime' | 'linkTarget'> & {
  path: string
  content: Buffer
}

/**
 * Inspects the target paths of a configuration's files in a sandbox in which no agent ran. Throws HarnessUnfit if a file
 * cannot be placed there, or if the file that it replaces could not be restored.
 */
export async function inspectTargetPaths(
  untouched: StoppedSandbox,
  { workdir, mounts }: { workdir: string; mounts: readonly Mount[] },
  files: readonly ConfigurationFile[],
): Promise<PlacedFiles> {
  const newFolders = await listNewFolders(untouched, workdir, files)
  const paths = files.map(({ path }) => posix.join(workdir, path))
  const originals: OriginalFile[] = []
  for (const path of paths) {
    const outside = [...VERIFIER_PATHS, ...mounts.map((mount) => mount.target)].find((each) => isWithin(path, each))
    if (outside !== undefined) throw toUnfit(path, `${outside} is not part of the working directory`)
    originals.push(...(await readOriginal(untouched, workdir, path)))
  }
  return { workdir, files, paths, newFolders, originals }
}

const toUnfit = (path: string, reason: string): HarnessUnfit =>
  new HarnessUnfit(`The configuration cannot place ${path}: ${reason}.`)

/** Lists the folders above the files that the task does not have, outermost first. */
async function listNewFolders(
  untouched: StoppedSandbox,
  workdir: string,
  files: readonly ConfigurationFile[],
): Promise<string[]> {
  const folders = new Set(files.flatMap(({ path }) => listFoldersBetween(workdir, posix.join(workdir, path))))
  const missing: string[] = []
  for (const folder of [...folders].sort()) {
    const kind = await readKind(untouched, folder)
    if (kind === 'other') throw toUnfit(folder, 'it is not a folder in this task')
    if (kind === 'none') missing.push(folder)
  }
  return missing
}

/** Lists the folders between a folder and a path below it, outermost first. Both ends are excluded. */
export function listFoldersBetween(folder: string, path: string): string[] {
  const parts = posix.relative(folder, path).split('/').slice(0, -1)
  return parts.map((_, index) => posix.join(folder, ...parts.slice(0, index + 1)))
}

/** Returns the kind of entry at a path of a stopped sandbox. */
export async function readKind(from: StoppedSandbox, path: string): Promise<'none' | 'folder' | 'other'> {
  const found = await from.collect(path, { files: 1, bytes: 0 })
  if (!found) return 'none'
  const types: string[] = []
  for await (const entry of readTarEntries(found.tar)) {
    await discardContent(entry)
    types.push(entry.type)
  }
  return types[0] === 'Directory' ? 'folder' : 'other'
}

/** Maximum size of a file that a configuration replaces. */
const ORIGINAL_BYTES_MAX = 16 * 1024 ** 2
/** Limits for searching a working directory, as for the patch. */
const WORKDIR_CAPS = { files: 50_000, bytes: 4 * 1024 ** 3 }

/** Reads what the task has at a path: nothing, or one file or link. Throws HarnessUnfit if it could not be restored. */
async function readOriginal(from: StoppedSandbox, workdir: string, path: string): Promise<OriginalFile[]> {
  const found = await from.collect(path, { files: 1, bytes: ORIGINAL_BYTES_MAX })
  if (!found) return []
  const file = await findInTar(found.tar, posix.basename(path), path)
  if (file) return [file]
  // A link is collected only as part of a folder, where it is known to stay inside.
  const folder = workdir === '/' ? undefined : await from.collect(workdir, WORKDIR_CAPS)
  const name = posix.join(posix.basename(workdir), posix.relative(workdir, path))
  const link = await findInTar(folder?.tar, name, path)
  if (link) return [link]
  throw toUnfit(path, 'the task has something there that could not be restored')
}

/**
 * Returns the placed files for a step with a folder of its own. Files of that folder at a target path become the
 * originals.
 */
export async function replaceOriginals(
  placed: PlacedFiles,
  folder: string,
  { uid }: FileOwnership,
): Promise<PlacedFiles> {
  const originals = new Map(placed.originals.map((original) => [original.path, original]))
  for (const [index, { path }] of placed.files.entries()) {
    const stats = await lstat(join(folder, path)).catch(() => undefined)
    const target = placed.paths[index]
    if (!stats?.isFile() || target === undefined) continue
    const content = await readFile(join(folder, path))
    const attributes = { mode: stats.mode & 0o777, uid, gid: uid, mtime: undefined, linkTarget: '' }
    originals.set(target, { path: target, type: 'File', content, ...attributes })
  }
  return { ...placed, originals: [...originals.values()] }
}

/** Finds a regular file or a link in an archive. Consumes the whole archive. */
export async function findInTar(
  tar: Readable | undefined,
  name: string,
  path: string,
): Promise<OriginalFile | undefined> {
  let found: OriginalFile | undefined
  for await (const entry of readTarEntries(tar ?? createEmptyTar())) {
    const content = await readContent(entry, toName(entry) === name)
    found = content ? toOriginal(entry, path, content) : found
  }
  return found
}

export const createEmptyTar = (): Readable => Readable.from([tarEnd()], { objectMode: false })

/** Returns the path of an entry without a leading `./` and a trailing slash. */
export const toName = ({ path }: Pick<TarEntry, 'path'>): string => path.replace(/^(\.\/)+/, '').replace(/\/+$/, '')

/** Consumes an entry. Returns its content if it is wanted and not too large. */
async function readContent(entry: TarEntry, isWanted: boolean): Promise<Buffer | undefined> {
  const isRead = isWanted && entry.bytes <= ORIGINAL_BYTES_MAX
  const chunks: Buffer[] = []
  for await (const chunk of entry.content()) if (isRead) chunks.push(chunk)
  return isRead ? Buffer.concat(chunks) : undefined
}

function toOriginal(entry: TarEntry, path: string, content: Buffer): OriginalFile | undefined {
  const { mode, uid, gid, mtime, linkTarget } = entry
  const type = entry.type === 'OldFile' ? 'File' : entry.type
  return type === 'File' || type === 'SymbolicLink'
    ? { path, type, mode, uid, gid, mtime, linkTarget, content }
    : undefined
}

/** Returns the upload that places the files of a configuration. The agent may change them. */
export function toPlacedFilesUpload({ workdir, files, newFolders }: PlacedFiles, owner: FileOwnership): SandboxUpload {
  const { uid, writableByAll } = owner
  const folders = newFolders.flatMap((folder) => {
    const path = `${posix.relative(workdir, folder)}/`
    return [...headerBlocks({ path, type: 'Directory', mode: writableByAll ? 0o777 : 0o755, uid, size: 0 })]
  })
  const contents = files.flatMap(({ path, text, executable }) => {
    const content = Buffer.from(text)
    const mode = (writableByAll ? 0o666 : 0o644) | (executable ? 0o111 : 0)
    const header = headerBlocks({ path, type: 'File', mode, uid, size: content.length })
    return [...header, content, tarPadding(content.length)]
  })
  const tar = Buffer.concat([...folders, ...contents, tarEnd()])
  return { target: workdir, tar: Readable.from([tar], { objectMode: false }) }
}

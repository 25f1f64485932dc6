import { constants, type Dirent } from 'node:fs'
import { type FileHandle, lstat, open, readdir, realpath, stat } from 'node:fs/promises'
import { basename, join, resolve, sep } from 'node:path'
import { codeOf, hasCode, ignoreCode } from '../platform/errors.ts'
import { FILES_MAX, PATH_DEPTH_MAX } from './limits.ts'
import type { FileSource, SourceFault, SourceFile, SourceListing } from './source.ts'

type FolderEntry = SourceFile | SourceFault | { folder: string }

/**
 * Opens a folder as a file source. A link to a file inside the folder counts as that file, as in Harbor. Links that lead
 * out, links to folders and special files are reported as faults.
 */
export async function openFolderSource(folder: string): Promise<FileSource> {
  const root = await realpath(folder)
  return {
    name: basename(resolve(folder)),
    list: (paths) => listPaths(root, paths),
    open: async (path) => (await openFile(root, path)).createReadStream(),
  }
}

/** Maximum number of files and folders that are inspected. */
const INSPECTED_MAX = 2 * FILES_MAX

async function listPaths(root: string, paths: readonly string[]): Promise<SourceListing> {
  const listing: SourceListing = { files: [], faults: [], isComplete: true }
  const pending = [...paths]
  for (let inspected = 0; pending.length > 0; inspected++) {
    if (inspected > INSPECTED_MAX) return { ...listing, isComplete: false }
    const entry = await inspectPath(root, pending.pop() ?? '')
    if (entry && 'folder' in entry) pending.push(...(await listEntries(root, entry.folder)))
    else if (entry) addEntry(entry, listing)
  }
  return listing
}

function addEntry(entry: SourceFile | SourceFault, { files, faults }: SourceListing): void {
  if ('code' in entry) faults.push(entry)
  else files.push(entry)
}

async function inspectPath(root: string, path: string): Promise<FolderEntry | undefined> {
  const entry = await lstat(join(root, path)).catch(ignoreCode('ENOENT', 'ENOTDIR'))
  if (!entry) return undefined
  if (entry.isSymbolicLink()) return inspectLink(root, path)
  if (entry.isFile()) return { path, bytes: entry.size, executable: (entry.mode & 0o111) !== 0 }
  if (!entry.isDirectory()) return { path, code: 'special_file' }
  return path.split('/').length > PATH_DEPTH_MAX ? { path, code: 'path_too_deep' } : { folder: path }
}

async function inspectLink(root: string, path: string): Promise<FolderEntry> {
  const target = await resolveLink(root, path)
  if (target === undefined) return { path, code: 'link_outside' }
  const entry = await stat(target)
  if (entry.isDirectory()) return { path, code: 'link_to_folder' }
  if (!entry.isFile()) return { path, code: 'special_file' }
  return { path, bytes: entry.size, executable: (entry.mode & 0o111) !== 0 }
}

/** Returns the target of a link, or undefined if it is outside the root, missing or circular. */
async function resolveLink(root: string, path: string): Promise<string | undefined> {
  const target = await realpath(join(root, path)).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT', 'ELOOP', 'ENOTDIR', 'EACCES')) throw error
  })
  return target?.startsWith(root + sep) ? target : undefined
}

async function listEntries(root: string, folder: string): Promise<string[]> {
  const entries: Dirent[] = await readdir(join(root, folder), { withFileTypes: true })
  return entries.map(({ name }) => `${folder}/${name}`)
}

/** Flags for untrusted files. They do not block on a pipe and do not follow a link that replaced the file after a check. */
export const UNTRUSTED_FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

async function openFile(root: string, path: string): Promise<FileHandle> {
  const file = await open(join(root, path), UNTRUSTED_FILE_FLAGS).catch(async (error: unknown) => {
    const target = codeOf(error) === 'ELOOP' ? await resolveLink(root, path) : undefined
    if (target === undefined) throw error
    return open(target, UNTRUSTED_FILE_FLAGS)
  })
  if ((await file.stat()).isFile()) return file
  await file.close()
  throw new Error(`${path} is no longer a regular file.`)
}

/** Resolves a relative path, following links. Returns undefined if the target is outside the root or missing. */
export async function resolveInside(root: string, path: string): Promise<string | undefined> {
  const [realRoot, target] = [await findRealPath(root), await findRealPath(join(root, path))]
  return realRoot !== undefined && target !== undefined && (target === realRoot || target.startsWith(realRoot + sep))
    ? target
    : undefined
}

const findRealPath = (path: string): Promise<string | undefined> =>
  realpath(path).catch((error: unknown) => {
    if (hasCode(error, 'ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES', 'ENAMETOOLONG', 'ERR_INVALID_ARG_VALUE'))
      return undefined
    throw error
  })

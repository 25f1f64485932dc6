import { constants, type Dirent } from 'node:fs'
import { type FileHandle, lstat, open, readdir, realpath, stat } from 'node:fs/promises'
import { basename, join, resolve, sep } from 'node:path'
import { codeOf, hasCode } from '../platform/blobs/error-codes.ts'
import { FILES_MAX, PATH_DEPTH_MAX } from './limits.ts'
import type { FileSource, Listing, SourceFault, SourceFile } from './source.ts'

type Found = SourceFile | SourceFault | { folder: string }

/**
 * The files of a folder. A link to a file inside the folder is that file, as when Harbor packs it; a link that leads
 * out, a link to a folder and whatever is neither file nor folder are faults.
 */
export async function inFolder(folder: string): Promise<FileSource> {
  const root = await realpath(folder)
  return {
    name: basename(resolve(folder)),
    list: (paths) => list(root, paths),
    open: async (path) => (await openFile(root, path)).createReadStream(),
  }
}

async function list(root: string, paths: readonly string[]): Promise<Listing> {
  const listing: Listing = { files: [], faults: [], isComplete: true }
  const waiting = [...paths]
  for (let seen = 0; waiting.length > 0; seen++) {
    if (seen > 2 * FILES_MAX) return { ...listing, isComplete: false }
    const found = await look(root, waiting.pop() ?? '')
    if (found && 'folder' in found) waiting.push(...(await entriesOf(root, found.folder)))
    else if (found) note(found, listing)
  }
  return listing
}

function note(found: SourceFile | SourceFault, { files, faults }: Listing): void {
  if ('code' in found) faults.push(found)
  else files.push(found)
}

async function look(root: string, path: string): Promise<Found | undefined> {
  const entry = await lstat(join(root, path)).catch(ignoreMissing)
  if (!entry) return undefined
  if (entry.isSymbolicLink()) return lookThrough(root, path)
  if (entry.isFile()) return { path, bytes: entry.size, executable: (entry.mode & 0o111) !== 0 }
  if (!entry.isDirectory()) return { path, code: 'special_file' }
  return path.split('/').length > PATH_DEPTH_MAX ? { path, code: 'path_too_deep' } : { folder: path }
}

async function lookThrough(root: string, path: string): Promise<Found> {
  const target = await targetOf(root, path)
  if (target === undefined) return { path, code: 'link_outside' }
  const entry = await stat(target)
  if (entry.isDirectory()) return { path, code: 'link_to_folder' }
  if (!entry.isFile()) return { path, code: 'special_file' }
  return { path, bytes: entry.size, executable: (entry.mode & 0o111) !== 0 }
}

/** Where a link leads inside the root. Undefined when it leads elsewhere, nowhere, or in a circle. */
async function targetOf(root: string, path: string): Promise<string | undefined> {
  const target = await realpath(join(root, path)).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT', 'ELOOP', 'ENOTDIR', 'EACCES')) throw error
  })
  return target?.startsWith(root + sep) ? target : undefined
}

async function entriesOf(root: string, folder: string): Promise<string[]> {
  const entries: Dirent[] = await readdir(join(root, folder), { withFileTypes: true })
  return entries.map(({ name }) => `${folder}/${name}`)
}

/** Never waits for a writer, and never follows a link that was put there since we listed the folder. */
const PLAINLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

async function openFile(root: string, path: string): Promise<FileHandle> {
  const file = await open(join(root, path), PLAINLY).catch(async (error: unknown) => {
    const target = codeOf(error) === 'ELOOP' ? await targetOf(root, path) : undefined
    if (target === undefined) throw error
    return open(target, PLAINLY)
  })
  if ((await file.stat()).isFile()) return file
  await file.close()
  throw new Error(`${path} is no longer a file.`)
}

function ignoreMissing(error: unknown): undefined {
  if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw error
}

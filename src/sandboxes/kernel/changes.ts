import { isUtf8 } from 'node:buffer'
import { lstat, opendir } from 'node:fs/promises'
import { ignoreCode } from '../../platform/errors.ts'
import type { FileChange } from '../sandbox.ts'

/** Overlay layers on this machine: those a sandbox changed, and those of its image. */
type LayerRoots = { changed: readonly string[]; image: readonly string[] }

/**
 * Lists what overlay layers change in an image. Links are not followed, nothing is executed, and the list is not held in
 * memory, because a sandbox can leave millions of files.
 */
export async function* listChanges({ changed, image }: LayerRoots): AsyncGenerator<FileChange> {
  const imageRoots = image.map((root) => Buffer.from(root))
  for (const root of changed) yield* walk({ layer: Buffer.from(root), imageRoots }, Buffer.alloc(0))
}

type WalkContext = { layer: Buffer; imageRoots: readonly Buffer[] }

const SLASH = Buffer.from('/')

async function* walk(context: WalkContext, folder: Buffer): AsyncGenerator<FileChange> {
  const entries = await openFolderAsBytes(Buffer.concat([context.layer, folder])).catch(ignoreTooLong)
  if (entries === undefined) return yield { ...describePath(folder), kind: 'folder', isUnreadable: true }
  for await (const entry of entries) {
    const path = Buffer.concat([folder, SLASH, entry.name])
    const kind = await findChangeKind(context, path, entry)
    if (kind) yield { ...describePath(path), kind }
    if (entry.isDirectory()) yield* walk(context, path)
  }
}

/** Returns the change at a path, or undefined for a folder that the image has too. */
async function findChangeKind(
  { layer, imageRoots }: WalkContext,
  path: Buffer,
  entry: RawFolderEntry,
): Promise<ChangeKind | undefined> {
  if (entry.isDirectory()) return (await isFolderInImage(imageRoots, path)) ? undefined : 'folder'
  if (entry.isCharacterDevice() && (await isWhiteout(Buffer.concat([layer, path])))) return 'deleted'
  return 'file'
}

type ChangeKind = FileChange['kind']

const describePath = (path: Buffer): Pick<FileChange, 'path' | 'isUnreadable'> => ({
  path: path.toString('utf8'),
  ...(isUtf8(path) ? {} : { isUnreadable: true }),
})

async function isFolderInImage(roots: readonly Buffer[], path: Buffer): Promise<boolean> {
  for (const root of roots) {
    const stats = await lstat(Buffer.concat([root, path])).catch(ignoreMissing)
    if (stats) return stats.isDirectory()
  }
  return false
}

/** Reports whether a character device is a mark with which overlay hides a file of the image: one with number 0. */
const isWhiteout = async (path: Buffer): Promise<boolean> => (await lstat(path)).rdev === 0

type RawFolderEntry = {
  name: Buffer
  isFile(): boolean
  isDirectory(): boolean
  isCharacterDevice(): boolean
}

/** Lists the entries of a folder with names as bytes, because names need not be UTF-8. Node's types declare text only. */
export const openFolderAsBytes = (folder: Buffer): Promise<AsyncIterable<RawFolderEntry>> =>
  opendir(folder as unknown as string, { encoding: 'buffer' as BufferEncoding }) as unknown as Promise<
    AsyncIterable<RawFolderEntry>
  >

const ignoreTooLong = ignoreCode('ENAMETOOLONG')
const ignoreMissing = ignoreCode('ENOENT', 'ENOTDIR', 'ENAMETOOLONG')

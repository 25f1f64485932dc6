import { posix } from 'node:path'
import type { Readable } from 'node:stream'
import { readTarEntries, type TarEntry } from '../../harbor/tar-reader.ts'
import { SandboxUnavailable, type SandboxUpload } from '../sandbox.ts'
import { staysInside } from './collect.ts'
import { toPathParts } from './sandbox-path.ts'
import { PLAIN_MODE, tarEnd, tarHeader, tarPadding } from './tar-writer.ts'

/** Packs uploads into one archive with paths from the root, after the workspace and folders that are missing. */
export async function* packUploads(
  workspace: Readable[],
  uploads: SandboxUpload[],
  missingFolders: Iterable<string> = [],
): AsyncGenerator<Buffer> {
  for (const tar of workspace) yield* tar
  for (const path of missingFolders) yield tarHeader({ path, type: 'Directory', mode: 0o755, uid: 0, gid: 0, size: 0 })
  for (const { target, tar } of uploads) {
    for await (const entry of readTarEntries(tar)) yield* rewriteEntry(entry, toPathParts(target))
  }
  yield tarEnd()
}

async function* rewriteEntry(entry: TarEntry, target: string[]): AsyncGenerator<Buffer> {
  const parts = parseEntryPath(entry)
  if (parts.length === 0) return
  const { uid, gid, mtime, bytes } = entry
  const header = { path: posix.join(...target, ...parts), mode: entry.mode & PLAIN_MODE, uid, gid, mtime }
  switch (entry.type) {
    case 'Directory':
      yield tarHeader({ ...header, type: 'Directory', size: 0 })
      return
    case 'File':
    case 'OldFile':
      yield tarHeader({ ...header, type: 'File', size: bytes })
      yield* entry.content()
      yield tarPadding(bytes)
      return
    case 'SymbolicLink':
      if (!staysInside(`top/${parts.join('/')}`, entry.linkTarget))
        throw createUploadError(entry.path, 'is a link out of the target')
      yield tarHeader({ ...header, type: 'SymbolicLink', size: 0, link: entry.linkTarget })
      return
    default:
      throw createUploadError(entry.path, `has the type ${entry.type}`)
  }
}

/** Returns the error for a refused upload. `reason` is a verb phrase about the path, such as `is not a folder`. */
export const createUploadError = (path: string, reason: string): SandboxUnavailable =>
  new SandboxUnavailable(`Upload to the sandbox refused: ${JSON.stringify(path)} ${reason}.`)

/** Splits the path of an archive entry. Empty for the target folder itself. Throws if the path leaves the target. */
export function parseEntryPath({ path }: TarEntry): string[] {
  const parts = path.split('/').filter((part) => part !== '.' && part !== '')
  if (path.startsWith('/') || path.includes('\0') || parts.includes('..'))
    throw createUploadError(path, 'is not a path inside the target')
  return parts
}

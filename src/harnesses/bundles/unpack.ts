import type { Dirent } from 'node:fs'
import { chmod, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { extract } from 'tar'
import { measureArchive, unpack } from '../../harbor/archive.ts'
import { ArchiveRefused } from '../../harbor/archive-stream.ts'
import { HarnessUnfit } from '../harness.ts'
import type { Tarball } from './bundle.ts'

/** Unpacks archives into their folders and makes them read-only. */
export async function unpackTarballs(tarballs: Tarball[], files: Map<string, string>, tree: string): Promise<void> {
  for (const { path, integrity } of tarballs) {
    const file = files.get(integrity)
    if (file === undefined) throw new Error(`No archive was fetched for ${path}.`)
    const cwd = join(tree, path)
    await mkdir(cwd, { recursive: true })
    await extract({ file, cwd, strip: 1, preserveOwner: false })
  }
  await makeReadOnly(tree)
}

/** Makes the content of a folder readable and executable for all users and writable for none. */
export async function makeReadOnly(tree: string): Promise<void> {
  for (const entry of await readdir(tree, { withFileTypes: true })) await makeEntryReadOnly(tree, entry)
}

/** Makes a file or folder read-only and executable, because some archives lack the executable bit. Links are skipped. */
async function makeEntryReadOnly(folder: string, entry: Dirent): Promise<void> {
  const path = join(folder, entry.name)
  if (entry.isSymbolicLink()) return
  if (entry.isDirectory()) {
    const entries = await readdir(path, { withFileTypes: true })
    await Promise.all(entries.map((inner) => makeEntryReadOnly(path, inner)))
  }
  await chmod(path, 0o555)
}

/** Limits of an uploaded archive, sized for the largest known agent program. Links must stay inside the archive. */
const UPLOAD_LIMITS = {
  entries: 50_000,
  fileBytes: 512 * 1024 ** 2,
  totalBytes: 1024 ** 3,
  timeMs: 300_000,
  links: 'inside',
} as const

/** Measures an uploaded archive without unpacking it. Throws ArchiveRefused. */
export const measureUploaded = (archive: Readable) => measureArchive(archive, UPLOAD_LIMITS)

/** Unpacks an uploaded archive into an empty folder. It was measured on upload, but is still untrusted. */
export async function unpackUploaded(archive: Readable, tree: string): Promise<void> {
  try {
    await unpack(archive, tree, UPLOAD_LIMITS)
  } catch (error) {
    if (error instanceof ArchiveRefused) throw new HarnessUnfit(`The bundle cannot be unpacked. ${error.message}`)
    throw error
  }
  await makeReadOnly(tree)
}

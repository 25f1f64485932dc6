import type { Readable } from 'node:stream'
import { measureArchive, unpack } from '../../harbor/archive.ts'
import { ArchiveRefused } from '../../harbor/archive-refused.ts'
import { HarnessUnfit } from '../harness-unfit.ts'
import { makeReadOnly } from './unpack.ts'

/** Sized for the largest known agent program. Links must stay inside the archive. */
const LIMITS = {
  entries: 50_000,
  fileBytes: 512 * 1024 ** 2,
  totalBytes: 1024 ** 3,
  timeMs: 300_000,
  links: 'inside',
} as const

/** Measures an uploaded archive without unpacking it. Throws ArchiveRefused. */
export const measureUploaded = (archive: Readable) => measureArchive(archive, LIMITS)

/** Unpacks an uploaded archive into an empty folder. It was measured on upload, but is still untrusted. */
export async function unpackUploaded(archive: Readable, tree: string): Promise<void> {
  try {
    await unpack(archive, tree, LIMITS)
  } catch (error) {
    if (error instanceof ArchiveRefused) throw new HarnessUnfit(`The bundle cannot be unpacked. ${error.message}`)
    throw error
  }
  await makeReadOnly(tree)
}

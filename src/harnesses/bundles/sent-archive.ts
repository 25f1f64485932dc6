import type { Readable } from 'node:stream'
import { measureArchive, unpack } from '../../harbor/archive.ts'
import { ArchiveRefused } from '../../harbor/archive-refused.ts'
import { HarnessUnfit } from '../harness-unfit.ts'
import { seal } from './unpack.ts'

/** Room for the largest program that we know ourselves. Links may lead from one file of it to another. */
const LIMITS = {
  entries: 50_000,
  fileBytes: 512 * 1024 ** 2,
  totalBytes: 1024 ** 3,
  timeMs: 300_000,
  links: 'inside',
} as const

/** What an archive that a workspace has sent would be, unpacked. Throws ArchiveRefused. */
export const weighSent = (archive: Readable) => measureArchive(archive, LIMITS)

/** Unpacks it where nothing is yet. Its bytes were weighed when it came; they are a stranger's all the same. */
export async function unpackSent(archive: Readable, tree: string): Promise<void> {
  try {
    await unpack(archive, tree, LIMITS)
  } catch (error) {
    if (error instanceof ArchiveRefused) throw new HarnessUnfit(`The bundle cannot be unpacked. ${error.message}`)
    throw error
  }
  await seal(tree)
}

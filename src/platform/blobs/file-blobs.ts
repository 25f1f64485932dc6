import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncFolder } from '../data-folder.ts'
import { explainDisk, hasCode, ignoreCode } from '../errors.ts'
import { BlobMissing, type Blobs, checkRoundTrip, type Digest, hexOf, verifyDigest } from './blob.ts'
import { deleteStaleSpools, type SpooledFile, spool } from './spool.ts'

/** Opens blobs that need not survive a crash of the machine, for content that can be restored. */
export const temporaryBlobs = (root: string): Blobs => fileBlobs(root, { isDurable: false })

/** Opens blobs in `<root>/sha256/ab/abcd…`. Writes go to `<root>/incoming` on the same disk and are then renamed. */
export function fileBlobs(root: string, { isDurable = true } = {}): Blobs {
  const incoming = join(root, 'incoming')
  const pathOf = (digest: Digest) => join(root, 'sha256', hexOf(digest).slice(0, 2), hexOf(digest))
  const openBlob = (digest: Digest) =>
    open(pathOf(digest)).catch((error: unknown) => {
      throw hasCode(error, 'ENOENT') ? new BlobMissing(digest) : error
    })

  const blobs: Omit<Blobs, 'check'> = {
    put: (content, options) =>
      withDiskAdvice(root, async () => {
        await createFolder(incoming)
        await using spooled = await spool(content, { ...options, folder: incoming, flush: isDurable })
        await moveIntoPlace(spooled, pathOf(spooled.digest), isDurable ? root : undefined)
        return { digest: spooled.digest, bytes: spooled.bytes }
      }),

    get: async (digest) => verifyDigest((await openBlob(digest)).createReadStream(), digest),

    async getPart(digest, { offset, bytes }) {
      const file = await openBlob(digest)
      return file.createReadStream({ start: offset, end: offset + bytes - 1 })
    },

    async find(digest) {
      const stats = await stat(pathOf(digest)).catch(ignoreCode('ENOENT'))
      return stats && { bytes: stats.size }
    },

    async remove(digest) {
      const path = pathOf(digest)
      await rm(path, { force: true })
      await syncFolder(dirname(path)).catch(ignoreCode('ENOENT'))
    },
  }
  const check = async () => {
    await checkRoundTrip(blobs)
    await deleteStaleSpools(incoming)
  }
  return { ...blobs, check: () => withDiskAdvice(root, check) }
}

/**
 * Moves a file into place. Replaces an existing file, which may be damaged. Syncs the folders up to
 * `syncedRoot`, if it is given.
 */
async function moveIntoPlace(spooled: SpooledFile, path: string, syncedRoot: string | undefined): Promise<void> {
  const folder = dirname(path)
  await createFolder(folder)
  await rename(spooled.path, path)
  if (syncedRoot === undefined) return
  // Parents are synced as well: another process may have created them and not synced them yet.
  for (const each of [folder, dirname(folder), syncedRoot]) await syncFolder(each)
}

/** Creates a folder and syncs every new parent, so that its files survive a power cut. */
async function createFolder(path: string): Promise<void> {
  const firstCreated = await mkdir(path, { recursive: true, mode: 0o700 })
  if (firstCreated === undefined) return
  for (let created = path; created !== dirname(firstCreated); created = dirname(created))
    await syncFolder(dirname(created))
}

async function withDiskAdvice<Result>(root: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw explainDisk(error, `${root} (ASSAY_BLOBS)`)
  }
}

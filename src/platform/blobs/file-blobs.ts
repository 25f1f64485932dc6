import { mkdir, open, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { BlobMissing, type Blobs, type Digest, hexOf } from './blob.ts'
import { explainDisk, hasCode } from './error-codes.ts'
import { roundTrip } from './round-trip.ts'
import { type Spooled, spool, sweep } from './spool.ts'
import { verified } from './verified.ts'

/**
 * Blobs that need not outlive a crash of the machine, for what can be had again.
 */
export const passingBlobs = (root: string): Blobs => fileBlobs(root, { isDurable: false })

/** `<root>/sha256/ab/abcd…`; what is being written is in `<root>/incoming`, on the same disk, so that it can be renamed. */
export function fileBlobs(root: string, { isDurable = true } = {}): Blobs {
  const incoming = join(root, 'incoming')
  const pathOf = (digest: Digest) => join(root, 'sha256', hexOf(digest).slice(0, 2), hexOf(digest))

  const blobs: Omit<Blobs, 'check'> = {
    put: (content, options) =>
      explained(root, async () => {
        await makeFolder(incoming)
        await using spooled = await spool(content, { ...options, folder: incoming, flush: isDurable })
        await settle(spooled, pathOf(spooled.digest), isDurable ? root : undefined)
        return { digest: spooled.digest, bytes: spooled.bytes }
      }),

    async get(digest) {
      const file = await open(pathOf(digest)).catch((error: unknown) => {
        throw hasCode(error, 'ENOENT') ? new BlobMissing(digest) : error
      })
      return verified(file.createReadStream(), digest)
    },

    async find(digest) {
      const found = await stat(pathOf(digest)).catch(ignoreMissing)
      return found && { bytes: found.size }
    },

    async remove(digest) {
      const path = pathOf(digest)
      await rm(path, { force: true })
      await syncFolder(dirname(path)).catch(ignoreMissing)
    },
  }
  const check = async () => {
    await roundTrip(blobs)
    await sweep(incoming)
  }
  return { ...blobs, check: () => explained(root, check) }
}

/** Replaces what is there: the content is the same, unless it was damaged, and then this repairs it. */
async function settle(spooled: Spooled, path: string, root: string | undefined): Promise<void> {
  const folder = dirname(path)
  await makeFolder(folder)
  await rename(spooled.path, path)
  if (root === undefined) return
  // The upper two as well: another process may have made them a moment ago and not have come to this line yet.
  for (const each of [folder, dirname(folder), root]) await syncFolder(each)
}

/** After a power cut a file is only there when every new folder on the way to it had reached the disk too. */
async function makeFolder(path: string): Promise<void> {
  const first = await mkdir(path, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let made = path; made !== dirname(first); made = dirname(made)) await syncFolder(dirname(made))
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}

function ignoreMissing(error: unknown): undefined {
  if (!hasCode(error, 'ENOENT')) throw error
}

async function explained<Result>(root: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    throw explainDisk(error, `${root} (ASSAY_BLOBS)`)
  }
}

import { Readable } from 'node:stream'
import { BlobMissing, BlobRefused, type Blobs, type Digest, hexOf } from './blob.ts'
import { explainDisk } from './error-codes.ts'
import { explainS3, isMissing } from './s3-errors.ts'
import { openStore, type S3Location, type S3Store, upload } from './s3-store.ts'
import { deleteStaleSpools, spool } from './spool.ts'
import { roundTrip, verifyDigest } from './verified.ts'

/** Maximum size of one S3 upload request. */
const BYTES_MAX = 5 * 1024 ** 3

export function s3Blobs(location: S3Location, spoolFolder: string): Blobs {
  let opened: Promise<S3Store> | undefined
  const withStore = async <Result>(work: (store: S3Store) => Promise<Result>): Promise<Result> => {
    opened ??= openStore(location)
    try {
      return await work(await opened)
    } catch (error) {
      throw explainS3(error, location)
    }
  }
  const objectOf = (digest: Digest) => {
    const hex = hexOf(digest)
    return { Bucket: location.bucket, Key: [location.prefix, 'sha256', hex.slice(0, 2), hex].filter(Boolean).join('/') }
  }

  const download = (digest: Digest, range?: string): Promise<Readable> =>
    withStore(async ({ sdk, client }) => {
      const command = new sdk.GetObjectCommand({ ...objectOf(digest), Range: range })
      const { Body: body } = await client.send(command).catch((error: unknown) => {
        throw isMissing(error) ? new BlobMissing(digest) : error
      })
      if (!(body instanceof Readable)) throw new Error(`The S3 client gave no stream for ${digest}.`)
      return body
    })

  const blobs: Omit<Blobs, 'check'> = {
    async put(content, options) {
      await using spooled = await spool(content, { ...options, folder: spoolFolder, flush: false }).catch((error) => {
        throw explainDisk(error, spoolFolder)
      })
      const { digest, bytes } = spooled
      if (bytes > BYTES_MAX) throw new BlobRefused('too_large', `S3 takes at most ${BYTES_MAX} bytes at once.`)
      await withStore((store) => upload(store, objectOf(digest), spooled))
      return { digest, bytes }
    },

    get: async (digest) => verifyDigest(await download(digest), digest),

    getPart: (digest, { offset, bytes }) => download(digest, `bytes=${offset}-${offset + bytes - 1}`),

    find: (digest) =>
      withStore(async ({ sdk, client }) => {
        const head = await client.send(new sdk.HeadObjectCommand(objectOf(digest))).catch((error: unknown) => {
          if (!isMissing(error)) throw error
          return undefined
        })
        return head && { bytes: head.ContentLength ?? 0 }
      }),

    remove: (digest) =>
      withStore(async ({ sdk, client }) => {
        await client.send(new sdk.DeleteObjectCommand(objectOf(digest)))
      }),
  }
  const check = async () => {
    await roundTrip(blobs)
    await deleteStaleSpools(spoolFolder)
  }
  return { ...blobs, check }
}

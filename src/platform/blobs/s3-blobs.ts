import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import type { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { codeOf, explainDisk, hasCode } from '../errors.ts'
import { BlobMissing, BlobRefused, type Blobs, checkRoundTrip, type Digest, hexOf, verifyDigest } from './blob.ts'
import { deleteStaleSpools, type SpooledFile, spool } from './spool.ts'

/** Maximum size of one S3 upload request. */
const UPLOAD_BYTES_MAX = 5 * 1024 ** 3

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
      if (!(body instanceof Readable)) throw new Error(`The S3 client returned no stream for ${digest}.`)
      return body
    })

  const blobs: Omit<Blobs, 'check'> = {
    async put(content, options) {
      await using spooled = await spool(content, { ...options, folder: spoolFolder, flush: false }).catch((error) => {
        throw explainDisk(error, spoolFolder)
      })
      const { digest, bytes } = spooled
      if (bytes > UPLOAD_BYTES_MAX)
        throw new BlobRefused('too_large', `S3 takes at most ${UPLOAD_BYTES_MAX} bytes at once.`)
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
    await checkRoundTrip(blobs)
    await deleteStaleSpools(spoolFolder)
  }
  return { ...blobs, check }
}

export type S3Location = {
  bucket: string
  prefix: string
  endpoint?: string | undefined
  region?: string | undefined
  pathStyle: boolean
}
type S3Store = { sdk: typeof import('@aws-sdk/client-s3'); client: S3Client }
type ObjectName = { Bucket: string; Key: string }

const ATTEMPTS_MAX = 3
const RETRY_PAUSE_MS = 100

/** Silences the client, which would warn on the console about each upload that we retry. */
const SILENT = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

/** Loads the S3 client on first use: it takes tens of megabytes, which a server with file blobs does not need. */
async function openStore({ endpoint, region, pathStyle }: S3Location): Promise<S3Store> {
  const sdk = await import('@aws-sdk/client-s3')
  const client = new sdk.S3Client({
    forcePathStyle: pathStyle,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(region === undefined ? {} : { region }),
    // We send and check SHA-256 ourselves; not every S3 server knows the CRC that the client would add.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    logger: SILENT,
    requestHandler: { connectionTimeout: 5_000, socketTimeout: 60_000 },
  })
  return { sdk, client }
}

/** Uploads a file with retries. The client does not retry streams; this can, because the content is in a file. */
async function upload(store: S3Store, object: ObjectName, spooled: SpooledFile): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await uploadOnce(store, object, spooled)
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !isTransient(error)) throw error
    }
    // Random, so that uploads that failed together are not retried together.
    await pause(RETRY_PAUSE_MS * 2 ** attempt * (1 + Math.random()))
  }
}

async function uploadOnce({ sdk, client }: S3Store, object: ObjectName, spooled: SpooledFile): Promise<void> {
  const hex = hexOf(spooled.digest)
  const content = (await open(spooled.path)).createReadStream()
  const command = new sdk.PutObjectCommand({
    ...object,
    Body: content,
    ContentLength: spooled.bytes,
    ChecksumSHA256: Buffer.from(hex, 'hex').toString('base64'),
  })
  signContent(command, hex)
  try {
    await client.send(command)
  } finally {
    content.destroy() // A request that never started does not close it.
  }
}

/** Signs the content, so that a server that does not know ChecksumSHA256 also refuses damaged content. */
function signContent(command: PutObjectCommand, hex: string): void {
  command.middlewareStack.add(
    (next) => (args) => {
      const request = args.request as { headers: Record<string, string> }
      request.headers['x-amz-content-sha256'] = hex
      return next(args)
    },
    { step: 'build', name: 'signContent' },
  )
}

const CONNECTION_CODES = ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ETIMEDOUT', 'EHOSTUNREACH']
const ADVICE: Record<string, string> = {
  NoSuchBucket: 'the bucket does not exist. Create it, or correct ASSAY_BLOBS',
  AccessDenied: 'access denied. These keys need s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket',
  Forbidden: 'access denied. These keys need s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket',
  InvalidAccessKeyId: 'the access key is not known there. Check AWS_ACCESS_KEY_ID',
  SignatureDoesNotMatch: 'the secret key is wrong. Check AWS_SECRET_ACCESS_KEY',
  CredentialsProviderError:
    'no AWS credentials found. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this machine a role',
  PermanentRedirect: 'the bucket is in another region. Set region= in ASSAY_BLOBS',
  AuthorizationHeaderMalformed: 'the bucket is in another region. Set region= in ASSAY_BLOBS',
}

/** Adds advice to known errors. Returns other errors unchanged. */
function explainS3(error: unknown, location: S3Location): unknown {
  const advice = findAdvice(error, location)
  return advice ? new Error(`Cannot use s3://${location.bucket} (ASSAY_BLOBS): ${advice}.`, { cause: error }) : error
}

const isMissing = (error: unknown): boolean => nameOf(error) === 'NoSuchKey' || nameOf(error) === 'NotFound'

/** Returns true if a retry may succeed: the server is busy or the connection broke. */
function isTransient(error: unknown): boolean {
  const status = statusOf(error)
  if (status !== undefined) return status >= 500 || status === 429
  return hasCode(error, 'ECONNRESET', 'EPIPE', 'ETIMEDOUT') || nameOf(error) === 'TimeoutError'
}

function findAdvice(error: unknown, { endpoint }: S3Location): string | undefined {
  if (CONNECTION_CODES.includes(codeOf(error)) || nameOf(error) === 'TimeoutError') {
    return `no connection to ${endpoint ?? 'AWS'} (${codeOf(error) || 'timeout'}). Check the endpoint and the network`
  }
  if (error instanceof Error && error.message === 'Region is missing') {
    return 'the region is missing. Add region= to ASSAY_BLOBS, or set AWS_REGION'
  }
  return ADVICE[nameOf(error)]
}

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : '')

function statusOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('$metadata' in error)) return undefined
  return (error.$metadata as { httpStatusCode?: number }).httpStatusCode
}

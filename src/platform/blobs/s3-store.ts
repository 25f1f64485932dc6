import { open } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { hexOf } from './blob.ts'
import { isTransient } from './s3-errors.ts'
import type { SpooledFile } from './spool.ts'

export type S3Location = {
  bucket: string
  prefix: string
  endpoint?: string | undefined
  region?: string | undefined
  pathStyle: boolean
}
export type S3Store = { sdk: typeof import('@aws-sdk/client-s3'); client: S3Client }
type ObjectName = { Bucket: string; Key: string }

const ATTEMPTS_MAX = 3

/** Silences the client, which would warn on the console about each upload that we retry. */
const SILENT = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

/** Loads the S3 client on first use: it takes tens of megabytes, which a server with file blobs does not need. */
export async function openStore({ endpoint, region, pathStyle }: S3Location): Promise<S3Store> {
  const sdk = await import('@aws-sdk/client-s3')
  const client = new sdk.S3Client({
    forcePathStyle: pathStyle,
    ...(endpoint && { endpoint }),
    ...(region && { region }),
    // SHA-256 is sent and checked here; not every S3 server knows the CRC that the client would add.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    logger: SILENT,
    requestHandler: { connectionTimeout: 5_000, socketTimeout: 60_000 },
  })
  return { sdk, client }
}

/** Uploads a file with retries. The client does not retry streams; this can, because the content is in a file. */
export async function upload(store: S3Store, object: ObjectName, spooled: SpooledFile): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await uploadOnce(store, object, spooled)
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !isTransient(error)) throw error
    }
    await pause(100 * 2 ** attempt * (1 + Math.random())) // jitter
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
    content.destroy() // a request that never started does not close it
  }
}

/** Signs the content: otherwise a server without ChecksumSHA256 would store whatever it received, damaged or not. */
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

import { open } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import type { PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { hexOf } from './blob.ts'
import { isPassing } from './s3-errors.ts'
import type { Spooled } from './spool.ts'

export type S3Place = { bucket: string; prefix: string; endpoint?: string; region?: string; pathStyle: boolean }
export type Store = { sdk: typeof import('@aws-sdk/client-s3'); client: S3Client }
type ObjectName = { Bucket: string; Key: string }

const ATTEMPTS_MAX = 3

/** Without one the client warns on the console about each upload that we are going to repeat. */
const SILENT = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

/** Loaded on first use: the client takes tens of megabytes that a server with file blobs should not pay for. */
export async function openStore({ endpoint, region, pathStyle }: S3Place): Promise<Store> {
  const sdk = await import('@aws-sdk/client-s3')
  const client = new sdk.S3Client({
    forcePathStyle: pathStyle,
    ...(endpoint && { endpoint }),
    ...(region && { region }),
    // We give and check SHA-256 ourselves; the CRC that the client would add is not known to every S3 server.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    logger: SILENT,
    requestHandler: { connectionTimeout: 5_000, socketTimeout: 60_000 },
  })
  return { sdk, client }
}

/** The client itself does not repeat a request whose body is a stream; we can, because the content is in a file. */
export async function upload(store: Store, object: ObjectName, spooled: Spooled): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await uploadOnce(store, object, spooled)
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !isPassing(error)) throw error
    }
    await pause(100 * 2 ** attempt * (1 + Math.random())) // apart, when many failed together
  }
}

async function uploadOnce({ sdk, client }: Store, object: ObjectName, spooled: Spooled): Promise<void> {
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

/** Otherwise the client signs «any content», and a server without ChecksumSHA256 would store what it received, damaged or not. */
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

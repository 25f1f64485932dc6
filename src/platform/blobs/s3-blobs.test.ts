import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type OutgoingHttpHeaders, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { motoAvailable, startMoto } from '../../../test/support/moto.ts'
import type { Blobs } from './blob.ts'
import { openBlobs } from './blobs.ts'

const moto = await motoAvailable()
const cleanUp = new AsyncDisposableStack()
afterAll(() => cleanUp.disposeAsync())

let endpoint = ''
let spoolFolder = ''
beforeAll(async () => {
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' })
  spoolFolder = await mkdtemp(join(tmpdir(), 'assay-spool-'))
  cleanUp.defer(() => rm(spoolFolder, { recursive: true }))
  if (!moto.available) return
  const server = cleanUp.use(await startMoto())
  endpoint = server.url
  const client = new S3Client({ endpoint, region: 'us-east-1', forcePathStyle: true })
  await client.send(new CreateBucketCommand({ Bucket: 'bucket' }))
})

const blobsAt = (url: string, bucket = 'bucket'): Blobs =>
  openBlobs(`s3://${bucket}?endpoint=${url}&region=us-east-1&pathStyle=1`, spoolFolder)

/** Stands between us and moto: sees every request, and may answer one itself. */
async function between(answer: (seen: IncomingMessage) => number | undefined) {
  const seen: IncomingMessage[] = []
  const server = createServer((incoming, outgoing) => {
    seen.push(incoming)
    const status = answer(incoming)
    if (status !== undefined) {
      incoming.resume().on('end', () => outgoing.writeHead(status).end())
      return
    }
    const { method, url: path, headers } = incoming
    const onward = request(`${endpoint}${path}`, { method, headers: headers as OutgoingHttpHeaders }, (back) => {
      outgoing.writeHead(back.statusCode ?? 502, back.headers)
      back.pipe(outgoing)
    })
    incoming.pipe(onward)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The test server has no port.')
  return {
    url: `http://127.0.0.1:${address.port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

describe.skipIf(!moto.available)(`on the wire to S3${moto.available ? '' : `: skipped, ${moto.reason}`}`, () => {
  test('sends a signed digest and length first, so that the server can refuse damaged content', async () => {
    await using proxy = await between(() => undefined)
    const content = randomBytes(3 * 1024 * 1024)
    const hash = createHash('sha256').update(content)

    const { digest } = await blobsAt(proxy.url).put(content)

    const [put] = proxy.seen
    expect(proxy.seen.map(({ method }) => method)).toEqual(['PUT'])
    expect(put?.headers).toMatchObject({
      'content-length': String(content.length),
      'x-amz-content-sha256': digest.slice(7),
      'x-amz-checksum-sha256': hash.digest('base64'),
    })
    expect(put?.headers.authorization).toMatch(/SignedHeaders=[^,]*x-amz-checksum-sha256;x-amz-content-sha256/)
  })

  test.each([500, 503, 429])('an upload that is answered with %i is sent again, whole', async (status) => {
    let answers = [status, status]
    await using proxy = await between(({ method }) => (method === 'PUT' ? answers.shift() : undefined))
    const blobs = blobsAt(proxy.url)
    const content = randomBytes(1024 * 1024)

    const { digest } = await blobs.put(content)
    answers = []

    expect(proxy.seen.map(({ method }) => method)).toEqual(['PUT', 'PUT', 'PUT'])
    expect(await blobs.find(digest)).toEqual({ bytes: content.length })
  })

  test.each([
    [503, 3],
    [400, 1],
  ])('an upload that always ends with %i is tried %i times and leaves no part', async (status, attempts) => {
    await using proxy = await between(() => status)

    await expect(blobsAt(proxy.url).put(randomBytes(1024))).rejects.toThrow()

    expect(proxy.seen).toHaveLength(attempts)
    expect(await readdir(spoolFolder)).toEqual([])
  })

  test('reports a missing bucket', async () => {
    await expect(blobsAt(endpoint, 'absent').check()).rejects.toThrow(
      'Cannot use s3://absent (ASSAY_BLOBS): the bucket does not exist. Create it, or correct ASSAY_BLOBS.',
    )
  })
})

describe('reports wrong settings', () => {
  test('reports an unreachable endpoint', async () => {
    await expect(blobsAt('http://127.0.0.1:9').check()).rejects.toThrow(
      /no connection to http:\/\/127\.0\.0\.1:9\/ \(ECONNREFUSED\)\. Check the endpoint/,
    )
    expect(await readdir(spoolFolder)).toEqual([])
  })

  test('reports denied access', async () => {
    const server = createServer((incoming, outgoing) => {
      incoming.resume()
      outgoing.writeHead(403, { 'content-type': 'application/xml' })
      outgoing.end('<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>')
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = address !== null && typeof address === 'object' ? address.port : 0

    await expect(blobsAt(`http://127.0.0.1:${port}`).check()).rejects.toThrow('These keys need s3:PutObject')
    server.closeAllConnections()
    server.close()
  })
})

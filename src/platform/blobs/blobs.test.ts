import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { CreateBucketCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { motoAvailable, startMoto } from '../../../test/support/moto.ts'
import { BlobDamaged, BlobMissing, BlobRefused, type Blobs, type Digest, isDigest } from './blob.ts'
import { openBlobs } from './blobs.ts'

/** One kind of place for blobs, as a test sees it from outside. */
type Store = {
  blobs: Blobs
  names: () => Promise<string[]>
  overwrite: (digest: Digest, content: Buffer) => Promise<void>
}
type StoreUnderTest = { name: string; missing?: string | undefined; open: () => Promise<Store> }

const digestOf = (content: Uint8Array): Digest => `sha256:${createHash('sha256').update(content).digest('hex')}`
const ABSENT = digestOf(Buffer.from('never stored'))
const MIB = 1024 * 1024

const cleanUp = new AsyncDisposableStack()
afterAll(() => cleanUp.disposeAsync())

async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-blobs-'))
  cleanUp.defer(() => rm(folder, { recursive: true, force: true }))
  return folder
}

async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

const file: StoreUnderTest = {
  name: 'file blobs',
  async open() {
    const folder = await temporaryFolder()
    const blobs = openBlobs(`file:${folder}`, join(folder, 'spool'))
    const pathOf = (digest: Digest) => join(folder, 'sha256', digest.slice(7, 9), digest.slice(7))
    return { blobs, names: () => filesIn(folder), overwrite: (digest, content) => writeFile(pathOf(digest), content) }
  },
}

const moto = await motoAvailable()
if (!moto.available) console.warn(`Skipped: the tests of S3 blobs. ${moto.reason}`)
let endpoint = ''
const s3: StoreUnderTest = {
  name: moto.available ? 's3 blobs' : 's3 blobs: skipped, no moto',
  missing: moto.available ? undefined : moto.reason,
  async open() {
    const Bucket = `b${randomBytes(8).toString('hex')}`
    const client = new S3Client({ endpoint, region: 'eu-west-1', forcePathStyle: true })
    await client.send(
      new CreateBucketCommand({ Bucket, CreateBucketConfiguration: { LocationConstraint: 'eu-west-1' } }),
    )
    const spoolFolder = await temporaryFolder()
    return {
      blobs: openBlobs(`s3://${Bucket}/some/prefix?endpoint=${endpoint}&region=eu-west-1&pathStyle=1`, spoolFolder),
      async names() {
        const { Contents: objects = [] } = await client.send(new ListObjectsV2Command({ Bucket }))
        return [...objects.map(({ Key = '' }) => Key.split('/').at(-1) ?? ''), ...(await filesIn(spoolFolder))]
      },
      async overwrite(digest, Body) {
        const hex = digest.slice(7)
        await client.send(new PutObjectCommand({ Bucket, Key: `some/prefix/sha256/${hex.slice(0, 2)}/${hex}`, Body }))
      },
    }
  },
}

beforeAll(async () => {
  if (!moto.available) return
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' })
  const server = cleanUp.use(await startMoto())
  endpoint = server.url
})

describe.each([file, s3])('$name', ({ missing, open }) => {
  const it = test.skipIf(missing !== undefined)

  it.each([
    ['nothing', 0],
    ['one byte', 1],
    ['more than a chunk', 5 * MIB + 3],
  ])('%s is stored and read unchanged, from bytes and from a stream', async (_, size) => {
    const { blobs, names } = await open()
    const content = randomBytes(size)

    const put = await blobs.put(content)
    const again = await blobs.put(
      Readable.from(content.length > 0 ? [content.subarray(0, 1), content.subarray(1)] : []),
    )

    expect(put).toEqual({ digest: digestOf(content), bytes: size })
    expect(isDigest(put.digest)).toBe(true)
    expect(again).toEqual(put)
    expect(content.equals(await buffer(await blobs.get(put.digest)))).toBe(true)
    expect(await blobs.find(put.digest)).toEqual({ bytes: size })
    expect(await names()).toEqual([put.digest.slice(7)])
  })

  it('a part is read without the rest', async () => {
    const { blobs } = await open()
    const content = randomBytes(3 * MIB)
    const { digest } = await blobs.put(content)
    for (const { offset, bytes } of [
      { offset: 0, bytes: 1 },
      { offset: MIB + 1, bytes: MIB },
      { offset: 3 * MIB - 5, bytes: 5 },
    ])
      expect(
        content.subarray(offset, offset + bytes).equals(await buffer(await blobs.getPart(digest, { offset, bytes }))),
      ).toBe(true)
    await expect(blobs.getPart(ABSENT, { offset: 0, bytes: 1 })).rejects.toThrow(BlobMissing)
  })

  it('an absent blob is reported as missing, and removing it is a no-op', async () => {
    const { blobs } = await open()

    await expect(blobs.get(ABSENT)).rejects.toThrow(BlobMissing)
    expect(await blobs.find(ABSENT)).toBeUndefined()
    await blobs.remove(ABSENT)
  })

  it('a removed blob is missing and can be stored again', async () => {
    const { blobs, names } = await open()
    const { digest } = await blobs.put(Buffer.from('hello'))

    await blobs.remove(digest)
    expect(await names()).toEqual([])

    await blobs.put(Buffer.from('hello'))
    expect((await buffer(await blobs.get(digest))).toString()).toBe('hello')
  })

  it('concurrent writes of the same content store one blob', async () => {
    const { blobs, names } = await open()
    const content = randomBytes(MIB)

    const puts = await Promise.all(Array.from({ length: 10 }, () => blobs.put(Readable.from([content]))))

    expect(new Set(puts.map(({ digest }) => digest))).toEqual(new Set([digestOf(content)]))
    expect(await names()).toEqual([digestOf(content).slice(7)])
  })

  it('a source that breaks leaves nothing', async () => {
    const { blobs, names } = await open()
    const breaking = Readable.from(
      (async function* () {
        yield randomBytes(MIB)
        throw new Error('the other side hung up')
      })(),
    )

    await expect(blobs.put(breaking)).rejects.toThrow('the other side hung up')
    expect(await names()).toEqual([])
  })

  it('more than bytesMax leaves nothing and stops an endless source', async () => {
    const { blobs, names } = await open()
    const endless = new Readable({
      read() {
        this.push(Buffer.alloc(65_536))
      },
    })

    await expect(blobs.put(endless, { bytesMax: MIB })).rejects.toMatchObject({ reason: 'too_large' })
    expect(endless.destroyed).toBe(true)
    await expect(blobs.put(Buffer.alloc(11), { bytesMax: 10 })).rejects.toThrow(BlobRefused)
    expect(await names()).toEqual([])
    expect(await blobs.put(Buffer.alloc(10), { bytesMax: 10 })).toMatchObject({ bytes: 10 })
  })

  it('content that is not the expected one leaves nothing', async () => {
    const { blobs, names } = await open()

    await expect(blobs.put(Buffer.from('other'), { expect: ABSENT })).rejects.toMatchObject({
      reason: 'digest_mismatch',
    })
    expect(await names()).toEqual([])
    const content = Buffer.from('hello')
    expect(await blobs.put(content, { expect: digestOf(content) })).toMatchObject({ bytes: 5 })
  })

  it.each([
    ['changed', 'HELLO'],
    ['shorter', 'hell'],
    ['longer', 'hello!'],
    ['empty', ''],
  ])('content that was %s in the store is noticed when read, and repaired when put again', async (_, damaged) => {
    const { blobs, overwrite } = await open()
    const { digest } = await blobs.put(Buffer.from('hello'))
    await overwrite(digest, Buffer.from(damaged))

    await expect(blobs.get(digest).then(buffer)).rejects.toThrow(BlobDamaged)

    await blobs.put(Buffer.from('hello'))
    expect((await buffer(await blobs.get(digest))).toString()).toBe('hello')
  })

  it.each([
    '',
    'sha256:',
    `sha256:${'A'.repeat(64)}`,
    `sha256:${'a'.repeat(63)}`,
    `sha256:${'a'.repeat(64)}\n`,
    `sha256:../../${'a'.repeat(58)}`,
    `sha256:${'a'.repeat(62)}/.`,
    `md5:${'a'.repeat(64)}`,
    ['sha256:'],
  ])('%j is not a digest and never becomes a path', async (value) => {
    const { blobs } = await open()
    const digest = value as Digest

    expect(isDigest(value)).toBe(false)
    for (const use of [blobs.get, blobs.find, blobs.remove]) await expect(use(digest)).rejects.toThrow('Not a digest')
    await expect(blobs.put(Buffer.from('x'), { expect: digest })).rejects.toThrow('Not a digest')
  })

  it('a reader that stops early leaks nothing', async () => {
    const { blobs } = await open()
    const { digest } = await blobs.put(randomBytes(5 * MIB))

    for await (const chunk of await blobs.get(digest)) {
      expect(chunk.length).toBeGreaterThan(0)
      break
    }
    expect(await blobs.find(digest)).toEqual({ bytes: 5 * MIB })
  })

  it('the check passes and leaves nothing', async () => {
    const { blobs, names } = await open()

    await blobs.check()

    expect(await names()).toEqual([])
  })
})

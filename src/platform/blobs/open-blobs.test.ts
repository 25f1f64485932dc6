import { execFile } from 'node:child_process'
import { mkdtemp, readdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openBlobs } from './blobs.ts'

test.each([
  ['', 'it must begin with file: or s3://'],
  ['/var/lib/assay', 'it must begin with file: or s3://'],
  ['https://bucket.s3.amazonaws.com', 'it must begin with file: or s3://'],
  ['file:', 'file: needs a folder'],
  ['file: ', 'file: needs a folder'],
  ['file:a\0b', 'NUL'],
  ['file://host/share', 'file:// needs a path on this machine'],
  ['s3:bucket', 'an S3 address looks like s3://bucket/prefix'],
  ['s3://', 'the bucket name'],
  ['s3://UPPER', 'the bucket name'],
  ['s3://bucket:99/x', 'the bucket name'],
  ['s3://bucket/a b', 'the prefix'],
  ['s3://bucket/a//b', 'the prefix'],
  ['s3://bucket/a%2f..%2fb', 'the prefix'],
  ['s3://bucket?zone=1', 'unknown setting "zone"; use endpoint, region, pathStyle'],
  ['s3://bucket?pathStyle=yes', 'pathStyle must be 0 or 1'],
  ['s3://bucket?endpoint=localhost:9000', 'endpoint must be an http or https URL'],
  ['s3://bucket?region=', 'region must not be empty'],
  ['s3://key:s3cret@bucket', 'keys do not belong in it'],
  ['s3://bucket?endpoint=https://key:s3cret@minio', 'keys do not belong in it'],
])('%j is refused: %s', (url, message) => {
  const opening = () => openBlobs(url, '/nowhere')

  expect(opening).toThrow(`ASSAY_BLOBS is not valid: `)
  expect(opening).toThrow(message)
  expect(opening).not.toThrow('s3cret')
})

test.each([
  's3://bucket',
  's3://bucket/',
  's3://bucket/a/b?region=eu-west-1',
  's3://b.c-d/?endpoint=http://127.0.0.1:9000&pathStyle=1',
])('%s is accepted, and nothing is connected yet', (url) => {
  expect(openBlobs(url, '/nowhere')).toMatchObject({ put: expect.any(Function) })
})

test('accepts a folder as a path, relative to the working directory, or as a URL', async () => {
  const folder = await realpath(await mkdtemp(join(tmpdir(), 'assay-blobs-')))
  const before = process.cwd()
  try {
    process.chdir(folder)
    await openBlobs('file:relative/a', '/nowhere').check()
    await openBlobs(`file:${folder}/b c%20d`, '/nowhere').check()
    await openBlobs(pathToFileURL(join(folder, 'e f')).href, '/nowhere').check()

    expect((await readdir(folder)).sort()).toEqual(['b c%20d', 'e f', 'relative'])
  } finally {
    process.chdir(before)
    await rm(folder, { recursive: true })
  }
})

/** In a process of its own, because what Node has loaded and the AWS settings belong to the process. */
async function inNewProcess(lines: string, env: NodeJS.ProcessEnv): Promise<string> {
  const script = `import { openBlobs } from ${JSON.stringify(new URL('blobs.ts', import.meta.url).href)}\n${lines}`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], { env })
  return stdout
}

test.each([
  ['file:DIR', false],
  ['s3://bucket?endpoint=http://127.0.0.1:9&region=eu-west-1&pathStyle=1', true],
])('with %s the S3 client is loaded: %s', async (url, loaded) => {
  const folder = await mkdtemp(join(tmpdir(), 'assay-blobs-'))
  const lines = `import { createRequire } from 'node:module'
    await openBlobs(${JSON.stringify(url.replace('DIR', folder))}, ${JSON.stringify(folder)}).check().catch(() => {})
    const modules = Object.keys(createRequire(import.meta.url).cache)
    process.stdout.write(String(modules.some((path) => path.includes('@aws-sdk'))))`
  const env = { ...process.env, AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' }
  try {
    expect(await inNewProcess(lines, env)).toBe(String(loaded))
  } finally {
    await rm(folder, { recursive: true })
  }
})

test.each([
  ['no keys', '&region=eu-west-1', {}, 'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY'],
  [
    'no region',
    '',
    { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' },
    'Add region= to ASSAY_BLOBS, or set AWS_REGION',
  ],
])('S3 with %s in the environment names the missing setting', async (_, query, keys, advice) => {
  const folder = await mkdtemp(join(tmpdir(), 'assay-blobs-'))
  const url = `s3://bucket?pathStyle=1&endpoint=http://127.0.0.1:9${query}`
  const lines = `await openBlobs(${JSON.stringify(url)}, ${JSON.stringify(folder)}).check()
    .catch((error) => process.stdout.write(error.message))`
  const { PATH } = process.env
  try {
    const said = await inNewProcess(lines, { PATH, HOME: folder, AWS_EC2_METADATA_DISABLED: 'true', ...keys })

    expect(said).toContain('Cannot use s3://bucket (ASSAY_BLOBS): ')
    expect(said).toContain(advice)
  } finally {
    await rm(folder, { recursive: true })
  }
})

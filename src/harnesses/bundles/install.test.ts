import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { HarnessUnfit } from '../harness.ts'
import { type Bundle, type BundleLock, nativeBundle, uploadedBundle } from './bundle.ts'
import { install, isInstalled, sweepUploaded } from './install.ts'

const NAME = '@made-up/program'
const VERSION = '1.2.3'
let folder: string
let requests = 0
let archive: Buffer
const server = createServer((request, response) => {
  requests += 1
  if (request.url?.endsWith('.tgz')) return response.end(archive)
  const address = server.address() as AddressInfo
  const tarball = `http://127.0.0.1:${address.port}/program.tgz`
  const manifest = { name: NAME, version: VERSION, dist: { tarball, integrity: integrityOf(archive) } }
  return response.end(
    JSON.stringify({ name: NAME, 'dist-tags': { latest: VERSION }, versions: { [VERSION]: manifest } }),
  )
})

const integrityOf = (bytes: Buffer): string => `sha512-${createHash('sha512').update(bytes).digest('base64')}`

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => server.close())
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'assay-bundles-'))
  archive = await packed('echo works')
  requests = 0
  vi.stubEnv('npm_config_registry', `http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  vi.stubEnv('npm_config_cache', join(folder, 'npm-cache'))
  vi.stubEnv('npm_config_fetch_retries', '0')
})
afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(folder, { recursive: true, force: true })
})

async function packed(line: string): Promise<Buffer> {
  const place = join(folder, 'made')
  mkdirSync(join(place, 'package'), { recursive: true })
  writeFileSync(join(place, 'package/package.json'), JSON.stringify({ name: NAME, version: VERSION }))
  writeFileSync(join(place, 'package/run'), `#!/bin/sh\n${line}\n`, { mode: 0o644 })
  await create({ gzip: true, cwd: place, file: join(place, 'made.tgz') }, ['package'])
  return readFileSync(join(place, 'made.tgz'))
}

function bundle(): Bundle {
  const tarball = { path: 'program', name: NAME, version: VERSION, integrity: integrityOf(archive) }
  const lock: BundleLock = { package: NAME, version: VERSION, tarballs: [tarball] }
  return nativeBundle('made-up', lock, 'program/run')
}

const bundles = (): string => join(folder, 'harnesses')
const options = () => ({ folder: bundles(), signal: new AbortController().signal, onProgress: () => {} })
const listInstalled = (): string[] => readdirSync(bundles())

test('installs a bundle once, read-only and executable', async () => {
  const bundleToInstall = bundle()
  expect(await isInstalled(bundleToInstall, bundles())).toBe(false)
  const [part] = await install(bundleToInstall, options())
  const program = join(part?.source ?? '', 'program/run')
  expect(readFileSync(program, 'utf8')).toContain('echo works')
  expect(statSync(program).mode & 0o777).toBe(0o555)
  expect(await isInstalled(bundleToInstall, bundles())).toBe(true)
  requests = 0
  expect(await install(bundleToInstall, options())).toEqual([part])
  expect(requests).toBe(0)
})

test('concurrent installs share one folder and leave no temporary files', async () => {
  const bundleToInstall = bundle()
  const [one, other] = await Promise.all([install(bundleToInstall, options()), install(bundleToInstall, options())])
  expect(one).toEqual(other)
  expect(listInstalled()).toHaveLength(1)
})

test('does not install an archive that differs from the lock file', async () => {
  const bundleToInstall = bundle()
  archive = await packed('echo something else')
  await expect(install(bundleToInstall, options())).rejects.toThrow(HarnessUnfit)
  await expect(install(bundleToInstall, options())).rejects.toThrow('does not match the lock file')
  expect(listInstalled()).toEqual([])
})

test('reports an unreachable registry', async () => {
  vi.stubEnv('npm_config_registry', 'http://127.0.0.1:1/')
  await expect(install(bundle(), options())).rejects.toThrow(
    /npm could not fetch @made-up\/program@1\.2\.3\. .*ECONNREFUSED/,
  )
  expect(listInstalled()).toEqual([])
})

test('removes drafts and locks of dead processes', async () => {
  const bundleToInstall = bundle()
  const [part] = await install(bundleToInstall, options())
  const place = part?.source ?? ''
  rmSync(place, { recursive: true })
  mkdirSync(join(bundles(), '.draft-999999-1-abc/tree'), { recursive: true })
  symlinkSync('999999-1', `${place}.lock`)
  expect(await install(bundleToInstall, options())).toEqual([part])
  expect(listInstalled()).toHaveLength(1)
})

/** Packs an archive as a workspace uploads it. */
async function packUpload(
  make: (place: string) => void,
  more: object = {},
): Promise<{ bundleToInstall: Bundle; bytes: Buffer }> {
  const place = join(folder, 'sent')
  mkdirSync(place)
  make(place)
  const bytes = await buffer(create({ gzip: true, cwd: place, ...more }, ['.']))
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  return { bundleToInstall: uploadedBundle({ digest, node: false, probe: ['/assay/bundle/bin/run'] }), bytes }
}

test('unpacks an uploaded bundle once, with its links, read-only and executable', async () => {
  const { bundleToInstall, bytes } = await packUpload((place) => {
    mkdirSync(join(place, 'bin'))
    writeFileSync(join(place, 'bin/run'), '#!/bin/sh\n')
    symlinkSync('bin/run', join(place, 'start'))
  })
  const openUploaded = vi.fn(async (): Promise<Readable | undefined> => Readable.from([bytes]))
  const [part] = await install(bundleToInstall, { ...options(), openUploaded })
  const { source = '', target } = part ?? {}
  expect(target).toBe('/assay/bundle')
  expect(
    [statSync(join(source, 'bin')).mode, statSync(join(source, 'start')).mode].map((mode) => mode & 0o777),
  ).toEqual([0o555, 0o555])
  expect(await install(bundleToInstall, { ...options(), openUploaded })).toEqual([part])
  expect(openUploaded).toHaveBeenCalledOnce()
})

test('removes an uploaded bundle after a week without use and unpacks it again on demand', async () => {
  const { bundleToInstall, bytes } = await packUpload((place) => {
    mkdirSync(join(place, 'bin'))
    writeFileSync(join(place, 'bin/run'), '')
  })
  const openUploaded = vi.fn(async (): Promise<Readable | undefined> => Readable.from([bytes]))
  const installed = () => install(bundleToInstall, { ...options(), openUploaded })
  await install(bundle(), options())
  const [part] = await installed()
  const age = (days: number) => {
    const then = new Date(Date.now() - days * 86_400_000)
    for (const name of readdirSync(bundles())) utimesSync(join(bundles(), name), then, then)
  }
  age(6)
  await sweepUploaded(bundles())
  expect(await isInstalled(bundleToInstall, bundles())).toBe(true)
  age(8)
  await installed()
  await sweepUploaded(bundles())
  expect(await isInstalled(bundleToInstall, bundles())).toBe(true)
  expect(openUploaded).toHaveBeenCalledOnce()
  age(8)
  await sweepUploaded(bundles())
  expect([await isInstalled(bundleToInstall, bundles()), await isInstalled(bundle(), bundles())]).toEqual([false, true])
  expect(listInstalled()).toHaveLength(1)
  expect(await installed()).toEqual([part])
  expect(openUploaded).toHaveBeenCalledTimes(2)
  await sweepUploaded(join(folder, 'nowhere'))
})

test.each<[string, (place: string) => void]>([
  ['a relative link to the outside', (place) => symlinkSync('../../etc/passwd', join(place, 'x'))],
  ['an absolute link', (place) => symlinkSync('/etc/passwd', join(place, 'x'))],
  ['a named pipe', (place) => void execFileSync('mkfifo', [join(place, 'x')])],
])('refuses an uploaded bundle with %s and leaves nothing behind', async (_, make) => {
  const { bundleToInstall, bytes } = await packUpload(make)
  const openUploaded = async () => Readable.from([bytes])
  await expect(install(bundleToInstall, { ...options(), openUploaded })).rejects.toThrow(HarnessUnfit)
  expect(listInstalled()).toEqual([])
})

test('does not install an uploaded bundle that is missing or truncated', async () => {
  const { bundleToInstall, bytes } = await packUpload((place) =>
    writeFileSync(join(place, 'run'), randomBytes(100_000)),
  )
  await expect(install(bundleToInstall, options())).rejects.toThrow(HarnessUnfit)
  await expect(install(bundleToInstall, { ...options(), openUploaded: async () => undefined })).rejects.toThrow(
    /has been deleted\. Upload its archive again/,
  )
  const half = async () => Readable.from([bytes.subarray(0, bytes.length / 2)])
  await expect(install(bundleToInstall, { ...options(), openUploaded: half })).rejects.toThrow(HarnessUnfit)
  expect(listInstalled()).toEqual([])
})

test('an aborted install leaves nothing behind', async () => {
  const abort = new AbortController()
  const stopped = install(bundle(), { ...options(), signal: abort.signal, onProgress: () => abort.abort() })
  await expect(stopped).rejects.toThrow('abort')
  expect(listInstalled()).toEqual([])
})

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
import { HarnessUnfit } from '../harness-unfit.ts'
import { type Bundle, type Lock, nativeBundle, sentBundle } from './bundle.ts'
import { install, isInstalled, sweepSent } from './install.ts'

const NAME = '@made-up/program'
const VERSION = '1.2.3'
let folder: string
let asked = 0
let archive: Buffer
const server = createServer((request, response) => {
  asked += 1
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
  asked = 0
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
  const lock: Lock = { package: NAME, version: VERSION, tarballs: [tarball] }
  return nativeBundle('made-up', lock, 'program/run')
}

const bundles = (): string => join(folder, 'harnesses')
const options = () => ({ folder: bundles(), signal: new AbortController().signal, onProgress: () => {} })
const whatIsThere = (): string[] => readdirSync(bundles())

test('it is installed once, whole, for reading and running only', async () => {
  const wanted = bundle()
  expect(await isInstalled(wanted, bundles())).toBe(false)
  const [part] = await install(wanted, options())
  const program = join(part?.source ?? '', 'program/run')
  expect(readFileSync(program, 'utf8')).toContain('echo works')
  expect(statSync(program).mode & 0o777).toBe(0o555)
  expect(await isInstalled(wanted, bundles())).toBe(true)
  asked = 0
  expect(await install(wanted, options())).toEqual([part])
  expect(asked).toBe(0)
})

test('two that want it at the same time get the same, and nothing is left over', async () => {
  const wanted = bundle()
  const [one, other] = await Promise.all([install(wanted, options()), install(wanted, options())])
  expect(one).toEqual(other)
  expect(whatIsThere()).toHaveLength(1)
})

test('an archive that is not the one of the lock is not installed', async () => {
  const wanted = bundle()
  archive = await packed('echo something else')
  await expect(install(wanted, options())).rejects.toThrow(HarnessUnfit)
  await expect(install(wanted, options())).rejects.toThrow('not the one of the lock')
  expect(whatIsThere()).toEqual([])
})

test('a registry that cannot be reached is said so', async () => {
  vi.stubEnv('npm_config_registry', 'http://127.0.0.1:1/')
  await expect(install(bundle(), options())).rejects.toThrow(
    /npm could not get @made-up\/program@1\.2\.3\. .*ECONNREFUSED/,
  )
  expect(whatIsThere()).toEqual([])
})

test('what dead processes left is taken away, and their turns are over', async () => {
  const wanted = bundle()
  const [part] = await install(wanted, options())
  const place = part?.source ?? ''
  rmSync(place, { recursive: true })
  mkdirSync(join(bundles(), '.draft-999999-1-abc/tree'), { recursive: true })
  symlinkSync('999999-1', `${place}.lock`)
  expect(await install(wanted, options())).toEqual([part])
  expect(whatIsThere()).toHaveLength(1)
})

/** As a workspace sends it. */
async function sent(make: (place: string) => void, more: object = {}): Promise<{ wanted: Bundle; bytes: Buffer }> {
  const place = join(folder, 'sent')
  mkdirSync(place)
  make(place)
  const bytes = await buffer(create({ gzip: true, cwd: place, ...more }, ['.']))
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  return { wanted: sentBundle({ digest, node: false, probe: ['/assay/bundle/bin/run'] }), bytes }
}

test('what a workspace has sent is unpacked once, with its links, for reading and running only', async () => {
  const { wanted, bytes } = await sent((place) => {
    mkdirSync(join(place, 'bin'))
    writeFileSync(join(place, 'bin/run'), '#!/bin/sh\n')
    symlinkSync('bin/run', join(place, 'start'))
  })
  const openSent = vi.fn(async (): Promise<Readable | undefined> => Readable.from([bytes]))
  const [part] = await install(wanted, { ...options(), openSent })
  const { source = '', target } = part ?? {}
  expect(target).toBe('/assay/bundle')
  expect(
    [statSync(join(source, 'bin')).mode, statSync(join(source, 'start')).mode].map((mode) => mode & 0o777),
  ).toEqual([0o555, 0o555])
  expect(await install(wanted, { ...options(), openSent })).toEqual([part])
  expect(openSent).toHaveBeenCalledOnce()
})

test('one that was not used for a week goes, and is unpacked again when it is wanted', async () => {
  const { wanted, bytes } = await sent((place) => {
    mkdirSync(join(place, 'bin'))
    writeFileSync(join(place, 'bin/run'), '')
  })
  const openSent = vi.fn(async (): Promise<Readable | undefined> => Readable.from([bytes]))
  const installed = () => install(wanted, { ...options(), openSent })
  await install(bundle(), options())
  const [part] = await installed()
  const age = (days: number) => {
    const then = new Date(Date.now() - days * 86_400_000)
    for (const name of readdirSync(bundles())) utimesSync(join(bundles(), name), then, then)
  }
  age(6)
  await sweepSent(bundles())
  expect(await isInstalled(wanted, bundles())).toBe(true)
  age(8)
  await installed()
  await sweepSent(bundles())
  expect(await isInstalled(wanted, bundles())).toBe(true)
  expect(openSent).toHaveBeenCalledOnce()
  age(8)
  await sweepSent(bundles())
  expect([await isInstalled(wanted, bundles()), await isInstalled(bundle(), bundles())]).toEqual([false, true])
  expect(whatIsThere()).toHaveLength(1)
  expect(await installed()).toEqual([part])
  expect(openSent).toHaveBeenCalledTimes(2)
  await sweepSent(join(folder, 'nowhere'))
})

test.each<[string, (place: string) => void]>([
  ['a link that leads out', (place) => symlinkSync('../../etc/passwd', join(place, 'x'))],
  ['a link that leads anywhere', (place) => symlinkSync('/etc/passwd', join(place, 'x'))],
  ['a pipe', (place) => void execFileSync('mkfifo', [join(place, 'x')])],
])('one with %s is not unpacked, and nothing is left', async (_, make) => {
  const { wanted, bytes } = await sent(make)
  const openSent = async () => Readable.from([bytes])
  await expect(install(wanted, { ...options(), openSent })).rejects.toThrow(HarnessUnfit)
  expect(whatIsThere()).toEqual([])
})

test('one that is gone, or breaks off on its way, is not installed', async () => {
  const { wanted, bytes } = await sent((place) => writeFileSync(join(place, 'run'), randomBytes(100_000)))
  await expect(install(wanted, options())).rejects.toThrow(HarnessUnfit)
  await expect(install(wanted, { ...options(), openSent: async () => undefined })).rejects.toThrow(
    /is not there any more\. Send its archive again/,
  )
  const half = async () => Readable.from([bytes.subarray(0, bytes.length / 2)])
  await expect(install(wanted, { ...options(), openSent: half })).rejects.toThrow(HarnessUnfit)
  expect(whatIsThere()).toEqual([])
})

test('who is told to stop stops, and leaves nothing', async () => {
  const abort = new AbortController()
  const stopped = install(bundle(), { ...options(), signal: abort.signal, onProgress: () => abort.abort() })
  await expect(stopped).rejects.toThrow('abort')
  expect(whatIsThere()).toEqual([])
})

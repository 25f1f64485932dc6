import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { baseRootfs } from '../../test/support/base-image.ts'
import { type RawEntry, tar } from '../../test/support/harbor/raw-tar.ts'
import { openCaseContext } from '../../test/support/sandboxes/case-context.ts'
import { createLog } from '../platform/log.ts'
import { createLocalProvider } from './local.ts'
import type { Image } from './sandbox.ts'

vi.setConfig({ testTimeout: 120_000 })

const run = promisify(execFile)
const provider = () =>
  createLocalProvider({ dataFolder, runtime: 'bwrap', allowHostBase: false, log: createLog('silent') })

let dataFolder: string
/** The tars of an image: a small system, and what later steps changed. */
let layers: Buffer[]

const file = (name: string, content: string): RawEntry => ({ name, content })

beforeAll(async () => {
  dataFolder = await mkdtemp(join(tmpdir(), 'assay-import-'))
  const system = join(dataFolder, 'system.tar')
  const without = ['perl*', './usr/share', './var', './dev/*', './usr/sbin'].map((name) => `--exclude=${name}`)
  await run('tar', ['-c', '-f', system, ...without, '-C', await baseRootfs(), '.'])
  layers = [
    await readFile(system),
    tar(file('data/one', '1'), file('data/two', '2'), file('data/sub/three', '3'), file('gone/x', 'x')),
    tar(file('data/.wh.one', ''), file('.wh.gone', ''), file('data/four', '4')),
    tar(file('data/sub/.wh..wh..opq', ''), file('data/sub/five', '5'), file('gone/y', 'y'), file('.wh.', '')),
    tar(),
    tar(),
  ]
}, 600_000)

afterAll(() => rm(dataFolder, { recursive: true }))

const SEEN = 'find /data /gone -type f | sort; cat /data/sub/five; pwd; id -un; echo $GREETING'
const SHOWN = '/data/four\n/data/sub/five\n/data/two\n/gone/y\n5/data\nnobody\nhello\n'

const CONFIG = {
  os: 'linux',
  architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
  config: {
    User: 'nobody',
    WorkingDir: '/data',
    Env: ['GREETING=hello', 'PATH=/usr/bin:/bin'],
    Entrypoint: ['run'],
    Cmd: ['it'],
  },
}

async function output(image: Image, script: string): Promise<string> {
  const subject = { provider: provider(), image, otherImage: image, brokenImage: image, unable: {} }
  const rest = { leftovers: async () => [], [Symbol.asyncDispose]: async () => {} }
  await using fixture = await openCaseContext({ ...subject, ...rest })
  return (await fixture.run(script)).output
}

const folder = (): Promise<string> => mkdtemp(join(dataFolder, 'archive-'))

async function tarOf(path: string): Promise<string> {
  await run('tar', ['-c', '-f', `${path}.tar`, '-C', path, '.'])
  return `${path}.tar`
}

async function writeLayout(blobs: Buffer[], config: object = CONFIG): Promise<string> {
  const path = await folder()
  await mkdir(join(path, 'blobs', 'sha256'), { recursive: true })
  const add = async (content: Buffer | object) => {
    const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content))
    const hex = createHash('sha256').update(bytes).digest('hex')
    await writeFile(join(path, 'blobs', 'sha256', hex), bytes)
    return { digest: `sha256:${hex}`, size: bytes.length }
  }
  const manifest = await add({ config: await add(config), layers: await Promise.all(blobs.map(add)) })
  const other = { ...(await add({ not: 'for us' })), platform: { os: 'unknown', architecture: 'unknown' } }
  const inner = await add({
    manifests: [{ ...manifest, platform: { os: CONFIG.os, architecture: CONFIG.architecture } }, other],
  })
  await writeFile(join(path, 'index.json'), JSON.stringify({ manifests: [inner] }))
  await writeFile(join(path, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  return path
}

async function writeSaved(tags: string[]): Promise<string> {
  const path = await folder()
  const paths = await Promise.all(
    layers.map(async (bytes, index) => {
      await mkdir(join(path, String(index)))
      await writeFile(join(path, String(index), 'layer.tar'), bytes)
      return `${index}/layer.tar`
    }),
  )
  await writeFile(join(path, 'config.json'), JSON.stringify(CONFIG))
  const images = tags.map((tag) => ({ Config: 'config.json', RepoTags: [tag], Layers: paths }))
  await writeFile(join(path, 'manifest.json'), JSON.stringify(images))
  return path
}

test('imports an OCI layout, as a folder or a tar, with compressed layers, deletions and settings', async () => {
  const path = await writeLayout(layers.map((layer, index) => (index === 1 ? gzipSync(layer) : layer)))
  const image = await provider().importRootfs(path, 'lab/layout:1')
  expect(image).toMatchObject({ workdir: '/data', user: 'nobody', entrypoint: ['run'], command: ['it'], base: 'image' })
  expect(await output(image, SEEN)).toBe(SHOWN)
  expect((await provider().importRootfs(await tarOf(path))).digest).toBe(image.digest)
})

test('a build on an image with several layers has the files of the image and no others', async () => {
  await provider().importRootfs(await writeLayout(layers), 'lab/layers:1')
  const draft = join(dataFolder, 'sandboxes/local/drafts/another-build')
  await mkdir(draft)
  const context = await folder()
  await writeFile(
    join(context, 'Dockerfile'),
    'FROM lab/layers:1\nUSER root\nRUN find / -xdev -name another-build > /found\n',
  )
  const image = await provider().prepare(
    { kind: 'dockerfile', context, dockerfile: 'Dockerfile', target: null, args: {} },
    { signal: AbortSignal.timeout(100_000), timeoutSec: 100, onLog: () => {} },
  )
  expect(await output(image, 'cat /found /data/four')).toBe('4')
  await rm(draft, { recursive: true })
})

test('imports archives of docker save, selected by name if there are several images', async () => {
  const one = await provider().importRootfs(await tarOf(await writeSaved(['lab/one:1'])), 'any:name')
  expect(await output(one, SEEN)).toBe(SHOWN)
  const two = await tarOf(await writeSaved(['lab/one:1', 'lab/two:1']))
  expect((await provider().importRootfs(two, 'docker.io/lab/two:1')).digest).toBe(one.digest)
  await expect(provider().importRootfs(two, 'lab/three:1')).rejects.toThrow('lab/one:1, lab/two:1')
})

test('refuses an image of another architecture and names it', async () => {
  const path = await writeLayout([tar(file('a', ''))], { ...CONFIG, architecture: 'riscv64' })
  await expect(provider().importRootfs(path)).rejects.toThrow('linux/riscv64')
})

test('refuses a layer that does not match its digest', async () => {
  const path = await writeLayout([tar(file('a', 'right'))])
  const hex = createHash('sha256')
    .update(tar(file('a', 'right')))
    .digest('hex')
  await writeFile(join(path, 'blobs', 'sha256', hex), tar(file('a', 'wrong')))
  await expect(provider().importRootfs(path)).rejects.toThrow('damaged')
})

test('an archive reads and writes nothing outside itself', async () => {
  const outside = join(dataFolder, 'outside')
  await mkdir(outside)
  await cp(join(await writeSaved(['x:1']), '0', 'layer.tar'), join(outside, 'layer.tar'))
  const saved = await writeSaved(['x:1'])
  const manifest = [{ Config: 'config.json', RepoTags: null, Layers: ['../outside/layer.tar'] }]
  await writeFile(join(saved, 'manifest.json'), JSON.stringify(manifest))
  await expect(provider().importRootfs(saved)).rejects.toThrow('../outside/layer.tar is missing')

  // A layer whose link leads out, and later ones that would go through it.
  const hostile = [
    tar({ name: 'out', type: '2', target: outside }, file('out/same', 'x')),
    tar(file('out/later', 'x'), file('out/.wh.layer.tar', '')),
    tar(file('../escaped', 'x')),
  ]
  for (const layer of hostile)
    await provider()
      .importRootfs(await writeLayout([...layers, layer]))
      .catch(() => {})
  expect(
    await run('find', [outside, join(dataFolder, 'sandboxes'), '-name', 'later', '-path', '*outside*']),
  ).toMatchObject({
    stdout: '',
  })
  expect((await run('ls', ['-A', outside])).stdout).toBe('layer.tar\n')
  expect((await run('find', [dataFolder, '-name', 'escaped'])).stdout).toBe('')
})

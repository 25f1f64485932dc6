import { execFile } from 'node:child_process'
import { chownSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { baseRootfs } from '../../test/support/base-image.ts'
import { startServer, trustedCertificate } from '../../test/support/loopback-servers.ts'
import { hostileBuilds } from '../../test/support/sandboxes/build-cases.ts'
import { REGISTRY_USER, startRegistry, type TestRegistry } from '../../test/support/sandboxes/docker-registry.ts'
import { processesNaming } from '../../test/support/sandboxes/processes.ts'
import { createLog } from '../platform/log.ts'
import { parseSettings } from './kubernetes/connection.ts'
import { createKubernetesProvider } from './kubernetes.ts'
import { createLocalProvider } from './local.ts'
import {
  type Image,
  type PrepareOptions,
  type SandboxProvider,
  SandboxUnavailable,
  SandboxUnreachable,
  SandboxUnsupported,
} from './sandbox.ts'

vi.setConfig({ testTimeout: 120_000 })

const BASE = 'debian:bookworm-slim'

let top: string
/** Data folder of the first worker, which has the base image. */
let data: string

beforeAll(async () => {
  top = await mkdtemp(join(tmpdir(), 'assay-kubernetes-build-'))
  data = join(top, 'data')
  await importBase(data)
}, 600_000)

afterAll(() => rm(top, { recursive: true }))

const silent = createLog('silent')

/** Imports the base image into the store, which builds share with local sandboxes. */
async function importBase(dataFolder: string): Promise<void> {
  const local = createLocalProvider({ dataFolder, runtime: 'bwrap', allowHostBase: false, log: silent })
  await local.importRootfs(await baseRootfs(), BASE)
}

/** Creates a worker. Preparing an image needs no cluster. */
const openWorker = (registry: object | undefined, dataFolder = data, server = 'https://127.0.0.1:1'): SandboxProvider =>
  createKubernetesProvider({
    open: async () => ({
      connection: { server },
      settings: parseSettings(JSON.stringify({ helperImage: 'node:24-bookworm-slim', registry })),
    }),
    installation: 'test',
    dataFolder,
    log: silent,
  })

async function writeContext(files: Record<string, string>, owner = 0): Promise<string> {
  const context = await mkdtemp(join(top, 'task-'))
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(context, path)), { recursive: true })
    await writeFile(join(context, path), text)
    chownSync(join(context, path), owner, owner)
  }
  return context
}

async function prepare(
  worker: SandboxProvider,
  files: Record<string, string>,
  options: Partial<PrepareOptions> & { owner?: number } = {},
): Promise<Image> {
  const context = await writeContext(files, options.owner)
  return worker.prepare(
    { kind: 'dockerfile', context, dockerfile: 'Dockerfile', target: null, args: {} },
    { signal: new AbortController().signal, timeoutSec: 100, onLog: () => {}, ...options },
  )
}

const TASK = {
  Dockerfile: `FROM ${BASE}
ENV GREETING="hello world"
WORKDIR /app
COPY file.txt ./
RUN cat /proc/sys/kernel/random/uuid > /number && useradd --uid 1234 worker
USER worker
ENTRYPOINT ["sh", "-c"]
CMD ["echo started"]
`,
  'file.txt': 'from the context\n',
}

const count = (requests: string[], pattern: RegExp): number => requests.filter((line) => pattern.test(line)).length
const PUSHED_TAG = /^PUT \/v2\/assay\/manifests\/[0-9a-f]{64} 201$/

describe('with a registry', () => {
  let registry: TestRegistry
  const settings = () => ({ repository: `${registry.host}/assay`, insecure: true })

  beforeEach(async () => {
    registry = await startRegistry()
  })
  afterEach(() => registry[Symbol.asyncDispose]())

  test('builds and pushes once, so that another worker only asks the registry', async () => {
    const lines: string[] = []
    const first = await prepare(openWorker(settings()), TASK, { onLog: (line) => void lines.push(line) })
    expect(first).toMatchObject({
      workdir: '/app',
      user: 'worker',
      entrypoint: ['sh', '-c'],
      command: ['echo started'],
    })
    expect(first.env).toMatchObject({ GREETING: 'hello world' })
    expect(first.registryName).toBe(`${registry.host}/assay@${first.digest}`)
    expect(await registry.readFile(first.registryName ?? '', '/app/file.txt')).toBe('from the context\n')
    expect(count(registry.requests, PUSHED_TAG)).toBe(1)
    expect(lines.join('\n')).toMatch(/STEP[\s\S]*Pushing/)

    registry.requests.length = 0
    // Without the base image, this worker could not build. Its files belong to another user.
    const other = openWorker({ ...settings(), builds: false }, join(top, 'other'))
    expect(await prepare(other, TASK, { owner: 1000 })).toEqual(first)
    await vi.waitFor(() => expect(registry.requests).toHaveLength(2), 30_000)
    expect(registry.requests.every((line) => /^GET \S+ 200$/.test(line))).toBe(true)
  })

  test('the default command of a named image is known where it is needed', async () => {
    const config = { os: 'linux', architecture: process.arch === 'arm64' ? 'arm64' : 'amd64' }
    const settingsOfImage = { Entrypoint: ['run'], Cmd: ['it'], WorkingDir: '/srv' }
    const archive = await writeContext({
      'manifest.json': JSON.stringify([{ Config: 'config.json', Layers: ['layer.tar'] }]),
      'config.json': JSON.stringify({ ...config, config: settingsOfImage }),
    })
    const files = await writeContext({ 'srv/file': 'x', 'bin/sh': 'x' })
    await promisify(execFile)('tar', ['-cf', join(archive, 'layer.tar'), '-C', files, '.'])
    await promisify(execFile)('tar', ['-cf', `${archive}.tar`, '-C', archive, '.'])
    await createLocalProvider({ dataFolder: data, runtime: 'bwrap', allowHostBase: false, log: silent }).importRootfs(
      `${archive}.tar`,
      'service:1',
    )
    const options = { signal: new AbortController().signal, timeoutSec: 100, onLog: () => {}, needsCommand: true }
    const prepareNamed = (name: string) =>
      openWorker(settings()).prepare({ kind: 'prebuilt', name, folder: null, workdir: null }, options)
    expect(await prepareNamed('service:1')).toMatchObject({ entrypoint: ['run'], command: ['it'], workdir: '/srv' })
    await expect(prepareNamed('service:1\nRUN id')).rejects.toThrow(/Invalid image name/)
    expect(await readdir(join(data, 'sandboxes', 'kubernetes'))).toEqual([])
  })

  test('files of a context belong to root in the image, whoever they belong to on the worker', async () => {
    const Dockerfile = `FROM ${BASE}\nCOPY file.txt /\nRUN stat -c %u /file.txt > /owner\n`
    const image = await prepare(openWorker(settings()), { Dockerfile, 'file.txt': 'x' }, { owner: 1234 })
    expect(await registry.readFile(image.registryName ?? '', '/owner')).toBe('0\n')
  })

  test('concurrent requests of one worker build once', async () => {
    const worker = openWorker(settings())
    const [one, two] = await Promise.all([prepare(worker, TASK), prepare(worker, TASK)])
    expect(two).toEqual(one)
    expect(count(registry.requests, PUSHED_TAG)).toBe(1)
  })

  test('two workers that build at the same time agree on one image afterwards', async () => {
    await importBase(join(top, 'second'))
    // Another name of the registry, because builds of one process for the same repository wait for each other.
    const { port } = new URL(`http://${registry.host}`)
    const second = openWorker({ repository: `localhost:${port}/assay`, insecure: true }, join(top, 'second'))
    const workers = [openWorker(settings()), second]
    const own = await Promise.all(workers.map((worker) => prepare(worker, TASK)))
    const [one, two] = await Promise.all(workers.map((worker) => prepare(worker, TASK)))
    expect(one?.digest).toBe(two?.digest)
    expect(own.map(({ digest }) => digest)).toContain(one?.digest)
    for (const { registryName = '' } of own)
      expect(await registry.readFile(registryName, '/app/file.txt')).toBe('from the context\n')
    expect(count(registry.requests, /^DELETE .*\/manifests\/sha256:[0-9a-f]{64} 202$/)).toBeGreaterThan(0)
  })

  test('an image that was discarded is built again, and only that one is deleted', async () => {
    const worker = openWorker(settings())
    const image = await prepare(worker, TASK)
    const number = await registry.readFile(image.registryName ?? '', '/number')
    const other = await prepare(worker, { ...TASK, 'file.txt': 'other\n' })
    await worker.discard(image)
    await worker.discard({ ...other, registryName: `images.example.com/assay@${other.digest}` })
    expect(await prepare(worker, { ...TASK, 'file.txt': 'other\n' })).toEqual(other)
    await expect(prepare(openWorker({ ...settings(), builds: false }), TASK)).rejects.toThrow('not in the registry')
    const again = await prepare(worker, TASK)
    expect(again.digest).not.toBe(image.digest)
    expect(await registry.readFile(again.registryName ?? '', '/number')).not.toBe(number)
  })

  test.each(Object.entries(hostileBuilds))('%s', async (_, openCase) => {
    await using attack = await openCase({ image: BASE, outside: top })
    const image = await prepare(openWorker(settings()), attack.files)
    const text = await registry.readFile(image.registryName ?? '', attack.path)
    expect(attack.isHarmless(text), text).toBe(true)
  })

  test('a build has the limits of its caller', async () => {
    const limits = { cpus: 1, memoryMb: 512, diskMb: 2048 }
    const Dockerfile = `FROM ${BASE}\nRUN cat /proc/self/cgroup > /group\n`
    const image = await prepare(openWorker(settings()), { Dockerfile }, { limits })
    expect(await registry.readFile(image.registryName ?? '', '/group')).toContain('assay-build-')
    const large = { Dockerfile: `FROM ${BASE}\nRUN head -c 100M /dev/zero > /large; sleep 30\n` }
    const small = { ...limits, diskMb: 16 }
    await expect(prepare(openWorker(settings()), large, { limits: small })).rejects.toThrow('more than 16 MiB')
  })

  test('a build is ended with all its commands by its timeout and by its caller', async () => {
    const worker = openWorker(settings())
    const sleep = (mark: string) => ({
      Dockerfile: `FROM ${BASE}\nRUN setsid sh -c ': ${mark}; sleep 600; :' & sh -c ': ${mark}; sleep 600; :'\n`,
    })
    const caller = new AbortController()
    const aborted = prepare(worker, sleep('aborted-build'), { signal: caller.signal })
    aborted.catch(() => {})
    await vi.waitFor(async () => expect(await processesNaming(': aborted-build; sleep')).not.toEqual([]), 30_000)
    caller.abort()
    await expect(aborted).rejects.toThrow(/abort/i)
    await expect(prepare(worker, sleep('late-build'), { timeoutSec: 8 })).rejects.toThrow('not ready after 8 seconds')
    for (const mark of ['aborted-build', 'late-build'])
      await vi.waitFor(async () => expect(await processesNaming(mark)).toEqual([]), 10_000)
    expect(count(registry.requests, PUSHED_TAG)).toBe(0)
  })

  test('a failing command fails the build with its last output, and pushes nothing', async () => {
    const files = { Dockerfile: `FROM ${BASE}\nRUN echo last words >&2; exit 3\n` }
    await expect(prepare(openWorker(settings()), files)).rejects.toThrow('last words')
    expect(count(registry.requests, /^PUT/)).toBe(0)
  })

  test('a registry that has gone away is an outage, which the self-test reports too', async () => {
    // This API server answers, and has no rights for anybody.
    await using server = await startServer(
      ({ url }, response) => void response.writeHead(url === '/version' ? 200 : 403).end('{}'),
      { tls: await trustedCertificate(['localhost']) },
    )
    const worker = openWorker(settings(), data, `https://localhost:${server.port}`)
    await expect(worker.selfTest()).rejects.toThrow('The Kubernetes API server refused a request')
    expect(count(registry.requests, /^POST \S+\/blobs\/uploads\/ 202$/)).toBe(1)
    await registry.stop()
    for (const attempt of [() => prepare(worker, TASK), () => worker.selfTest()]) {
      await expect(attempt()).rejects.toThrow(SandboxUnreachable)
      await expect(attempt()).rejects.toThrow(`The image registry ${registry.host} does not answer`)
    }
  })
})

test('in a registry that does not delete, images are found again and discarding one does nothing', async () => {
  await using registry = await startRegistry({ deletes: false })
  const worker = openWorker({ repository: `${registry.host}/assay`, insecure: true })
  const image = await prepare(worker, TASK)
  await worker.discard(image)
  expect(await prepare(worker, TASK)).toEqual(image)
})

describe('with a registry that has users', () => {
  let registry: TestRegistry
  beforeAll(async () => {
    registry = await startRegistry({ hasUser: true })
  })
  afterAll(() => registry[Symbol.asyncDispose]())

  const settings = () => ({ repository: `${registry.host}/team/assay`, insecure: true })
  const writeSecret = async (name: string, text: string): Promise<string> => {
    await writeFile(join(top, name), text)
    return join(top, name)
  }

  test('pushes with a password file or the file of Docker, and leaves no copy of the password', async () => {
    const { username, password } = REGISTRY_USER
    const passwordFile = await writeSecret('password', `${password}\n`)
    const lines: string[] = []
    const worker = openWorker({ ...settings(), username, passwordFile })
    const image = await prepare(worker, TASK, { onLog: (line) => void lines.push(line) })
    const auth = Buffer.from(`${username}:${password}`).toString('base64')
    const authFile = await writeSecret('auth.json', JSON.stringify({ auths: { [registry.host]: { auth } } }))
    expect(await prepare(openWorker({ ...settings(), authFile }), TASK)).toEqual(image)
    expect(lines.join('\n')).not.toContain(password)
    expect(lines.join('\n')).not.toContain(auth)
    expect(await readdir(join(data, 'sandboxes/local/drafts'))).toEqual([])
  })

  test('a wrong password and a missing one are named before anything is built', async () => {
    const passwordFile = await writeSecret('wrong', 'wrong-secret')
    const files = { ...TASK, 'file.txt': 'never built\n' }
    const lines: string[] = []
    const onLog = (line: string) => void lines.push(line)
    const wrong = prepare(openWorker({ ...settings(), username: 'assay', passwordFile }), files, { onLog })
    await expect(wrong).rejects.toThrow(SandboxUnavailable)
    await expect(wrong).rejects.toThrow(/does not accept the credential/)
    await expect(wrong).rejects.not.toThrow(/wrong-secret/)
    const missing = prepare(openWorker(settings()), files, { onLog })
    await expect(missing).rejects.toThrow(/requires a credential. Set username and passwordFile/)
    expect(lines).toEqual([])
  })
})

test('without a registry, a Dockerfile is refused with the setting that is missing', async () => {
  await expect(prepare(openWorker(undefined), TASK)).rejects.toThrow(SandboxUnsupported)
  await expect(prepare(openWorker(undefined), TASK)).rejects.toThrow(/Add registry .* ASSAY_KUBERNETES/)
})

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { freePort } from '../system-postgres.ts'

/** User of a registry with authentication. */
export const REGISTRY_USER = { username: 'assay', password: 'registry pass:word' }
const HTPASSWD = 'assay:$2y$05$dCaF0RrgqAVfiKyLyhKVDOLhcUQ8JT0OhdN2TpOHDB.5awRJB1.oy\n'

/** A registry on this machine that records its requests. */
export type TestRegistry = AsyncDisposable & {
  host: string
  /** Requests so far: method, path and status. */
  requests: string[]
  /** Returns a file of an image, read from its layers. */
  readFile(reference: string, path: string): Promise<string>
  /** Ends the registry. Its images stay until it is disposed. */
  stop(): Promise<void>
}

type RegistryOptions = { hasUser?: boolean; deletes?: boolean }

/** Starts Debian's docker-registry with an empty storage. */
export async function startRegistry({ hasUser = false, deletes = true }: RegistryOptions = {}): Promise<TestRegistry> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-registry-'))
  const host = `127.0.0.1:${await freePort()}`
  const htpasswd = join(folder, 'htpasswd')
  await writeFile(htpasswd, HTPASSWD)
  const config = {
    version: '0.1',
    log: { level: 'error' },
    storage: { filesystem: { rootdirectory: join(folder, 'data') }, delete: { enabled: deletes } },
    http: { addr: host, secret: 'test' },
    ...(hasUser ? { auth: { htpasswd: { realm: 'test', path: htpasswd } } } : {}),
  }
  // YAML includes JSON.
  await writeFile(join(folder, 'config.yml'), JSON.stringify(config))
  const child = spawn('docker-registry', ['serve', join(folder, 'config.yml')], { stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = once(child, 'exit')
  const requests: string[] = []
  createInterface({ input: child.stdout }).on('line', (line) => {
    const [, request, status] = /"(\w+ \S+) HTTP\/1\.\d" (\d+)/.exec(line) ?? []
    if (request !== undefined) requests.push(`${request} ${status}`)
  })
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    await ended
  }
  await waitUntilReady(`http://${host}/v2/`, child)
  return {
    host,
    requests,
    stop,
    readFile: (reference, path) => readImageFile(host, hasUser, reference, path),
    async [Symbol.asyncDispose]() {
      await stop()
      await rm(folder, { recursive: true })
    },
  }
}

async function waitUntilReady(url: string, child: { exitCode: number | null }): Promise<void> {
  while (!(await fetch(url).catch(() => undefined))) {
    if (child.exitCode !== null) throw new Error('docker-registry ended before it was ready.')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

async function readImageFile(host: string, hasUser: boolean, reference: string, path: string): Promise<string> {
  const { username, password } = REGISTRY_USER
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const get = (suffix: string) =>
    fetch(`http://${host}/v2/${suffix}`, {
      headers: { accept: 'application/vnd.oci.image.manifest.v1+json', ...(hasUser ? { authorization } : {}) },
    })
  const [, repository = '', digest = ''] = /^[^/]+\/(.+)@(.+)$/.exec(reference) ?? []
  const { layers } = (await (await get(`${repository}/manifests/${digest}`)).json()) as { layers: { digest: string }[] }
  for (const layer of layers.toReversed()) {
    const blob = Buffer.from(await (await get(`${repository}/blobs/${layer.digest}`)).arrayBuffer())
    const unpacked = promisify(execFile)('tar', ['-xzOf', '-', path.slice(1)], { maxBuffer: 64e6 })
    unpacked.child.stdin?.end(blob)
    const found = await unpacked.catch(() => undefined)
    if (found) return found.stdout
  }
  throw new Error(`${path} is not in ${reference}.`)
}

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { connectDocker, type Docker } from '../../src/sandboxes/docker/client.ts'
import { baseRootfs, cacheFolder } from './base-image.ts'

const run = promisify(execFile)
const START_MS = 60_000
const STOP_MS = 20_000

export type Dockerd = AsyncDisposable & {
  socket: string
  folder: string
  docker: Docker
  pid: number
  log(): Promise<string>
}

/** `args` are additional arguments of dockerd, for example a second address to listen on. */
type DockerdOptions = { args?: string[]; folder?: string; images?: RootFolders }

/** Folders with root file systems, by the name of their image. */
type RootFolders = Record<string, string>

const BASE = 'debian:bookworm-slim'

export const baseImages = async (): Promise<RootFolders> => ({ [BASE]: await baseRootfs() })

const TRIES = 3

/**
 * Starts a Docker engine in a temporary folder. Its only networks are those of sandboxes. An existing folder keeps its
 * own images.
 */
export async function startDockerd({ args, images, folder: existing }: DockerdOptions = {}): Promise<Dockerd> {
  const folder = existing ?? (await mkdtemp(join(tmpdir(), 'assay-dockerd-')))
  const data = join(folder, 'data')
  if (images && !existsSync(data)) await copyImages(await importOnce(images), data)
  return startAgain(folder, args)
}

async function startAgain(folder: string, args?: string[]): Promise<Dockerd> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await start(folder, args)
    } catch (error) {
      // Two engines that start at the same time overwrite each other's firewall chains.
      if (tries === TRIES || !String(error).includes('iptables')) throw error
    }
  }
}

async function start(folder: string, args: string[] = []): Promise<Dockerd> {
  const socket = join(folder, 'docker.sock')
  // dockerd refuses to start when another process has received the number in a pid file that an ended engine left.
  await rm(join(folder, 'pid'), { force: true })
  const pathArgs = [
    '--host',
    `unix://${socket}`,
    '--data-root',
    join(folder, 'data'),
    '--exec-root',
    join(folder, 'exec'),
  ]
  const networkArgs = ['--bridge', 'none', '--ip-forward=false']
  const dockerdArgs = [...pathArgs, '--pidfile', join(folder, 'pid'), ...networkArgs, '--log-level', 'warn', ...args]
  const child = spawn('dockerd', dockerdArgs, { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: TOOLS_PATH } })
  const outputs: Promise<string>[] = [text(child.stdout), text(child.stderr)]
  const docker = connectDocker({ kind: 'unix', path: socket })
  await waitUntilReady(docker, child, outputs)
  // Tests also connect as other users of this machine.
  await chmod(folder, 0o755)
  await chmod(socket, 0o666)
  return {
    socket,
    folder,
    docker,
    pid: child.pid ?? 0,
    log: async () => (await Promise.all(outputs)).join(''),
    async [Symbol.asyncDispose]() {
      docker.close()
      await stop(child, folder)
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    },
  }
}

const TOOLS_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

async function waitUntilReady(docker: Docker, child: ChildProcess, outputs: Promise<string>[]): Promise<void> {
  const deadline = performance.now() + START_MS
  for (;;) {
    if (child.exitCode !== null)
      throw new Error(`dockerd exited before it was ready: ${(await Promise.all(outputs)).join('')}`)
    const answer = await docker.call('GET', '/version').catch(() => undefined)
    if (answer !== undefined) return
    if (performance.now() > deadline) throw new Error(`dockerd did not answer within ${START_MS} ms.`)
    await wait(100)
  }
}

async function stop(child: ChildProcess, folder: string): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) {
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_MS)
    await ended
    clearTimeout(timer)
  }
  const mounts = (await readFile('/proc/self/mountinfo', 'utf8'))
    .split('\n')
    .flatMap((line) => line.split(' ')[4] ?? [])
  for (const mount of mounts.filter((path) => path.startsWith(`${folder}/`)).reverse())
    await run('umount', ['-l', mount])
}

/** Imports a root file system as an image. */
export async function importImage({ docker }: Pick<Dockerd, 'docker'>, name: string, rootfs: string): Promise<void> {
  const tar = spawn('tar', ['-c', '-C', rootfs, '.'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [repo, tag] = name.split(':')
  const body: Readable = tar.stdout
  await text(await docker.open('POST', '/images/create', { query: { fromSrc: '-', repo, tag }, body }))
}

/** Returns a folder of the cache with the images of an engine, because an import takes many seconds of processor time. */
async function importOnce(images: RootFolders): Promise<string> {
  const { stdout: version } = await run('dockerd', ['--version'])
  const key = createHash('sha256')
    .update(JSON.stringify([version, images]))
    .digest('hex')
  const folder = join(await cacheFolder(), `docker-images-${key.slice(0, 12)}`)
  if (existsSync(folder)) return folder
  const draft = await mkdtemp(`${folder}-`)
  await using dockerd = await startDockerd()
  for (const [name, rootfs] of Object.entries(images)) await importImage(dockerd, name, rootfs)
  await copyImages(join(dockerd.folder, 'data'), draft)
  // Another process may have been faster.
  await rename(draft, folder).catch(() => rm(draft, { recursive: true }))
  return folder
}

/** Engines share the files of layers, which they never change. Folders on another disk are copied. */
async function copyImages(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true })
  await run('cp', ['-a', join(from, 'image'), to])
  const layers = [join(from, 'overlay2'), to]
  await run('cp', ['-a', '--link', ...layers]).catch(() => run('cp', ['-a', ...layers]))
}

import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { connectDocker, type Docker } from '../../src/sandboxes/docker/client.ts'
import { baseRootfs } from './base-image.ts'

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
type DockerdOptions = { args?: string[]; folder?: string }

const TRIES = 3

/** Starts a Docker engine in a temporary folder. Its only networks are those of sandboxes. */
export async function startDockerd(options: DockerdOptions = {}): Promise<Dockerd> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await start(options)
    } catch (error) {
      // Two engines that start at the same time overwrite each other's firewall chains.
      if (tries === TRIES || !String(error).includes('iptables')) throw error
    }
  }
}

async function start({ args = [], folder: existingFolder }: DockerdOptions): Promise<Dockerd> {
  const folder = existingFolder ?? (await mkdtemp(join(tmpdir(), 'assay-dockerd-')))
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

/** Imports the base image under the name that tasks use. Returns its digest. */
export async function importBase({ docker }: Dockerd, name = 'debian:bookworm-slim', rootfs?: string): Promise<string> {
  const tar = spawn('tar', ['-c', '-C', rootfs ?? (await baseRootfs()), '.'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [repo, tag] = name.split(':')
  const body: Readable = tar.stdout
  await text(await docker.open('POST', '/images/create', { query: { fromSrc: '-', repo, tag }, body }))
  const { Id } = await docker.call<{ Id: string }>('GET', `/images/${name}/json`)
  return Id
}

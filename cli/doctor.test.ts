import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openKeyring } from '../src/credentials/master-key.ts'
import { call } from '../src/platform/http/client.ts'
import { newKey } from '../src/workspaces/key.ts'
import { readDoctor } from '../src/workspaces/schema.ts'
import { ensureBootstrapKey } from '../src/workspaces/workspaces.ts'
import {
  assay,
  type CommandResult,
  type CommandVariables,
  findCheckLines,
  hasTerminal,
  localServer,
  onTerminal,
  scratchFolder,
} from '../test/support/assay-command.ts'
import { testDatabase } from '../test/support/database.ts'
import { type ServiceProcess, startService } from '../test/support/service.ts'

const folder = scratchFolder()
const data = join(folder.path, 'data')
let service: ServiceProcess

beforeAll(async () => {
  service = await startService('serve', ['--data', data, '--port', '0'])
  mkdirSync(join(data, 'blobs'), { mode: 0o700 })
})

afterAll(async () => {
  await service.kill('SIGTERM')
  folder.remove()
})

/** The port of the service of this file, unless another is given: whatever runs on 4000 is none of ours. */
const doctor = (env: CommandVariables = {}, flags: string[] = []): Promise<CommandResult> =>
  assay(['doctor', ...flags], { env: { ASSAY_DATA: data, ASSAY_PORT: new URL(service.url).port, ...env } })

test('passes all checks of a healthy service and exits with 0', async () => {
  const ran = await doctor()
  expect(ran.code, ran.out).toBe(0)
  expect(ran.err).toBe('All required checks passed.\n')
  expect(findCheckLines(ran, 'Node')).toMatch(/^✓ Node {2}2\d\.\d+\.\d+$/)
  expect(findCheckLines(ran, 'PostgreSQL')).toMatch(/^✓ PostgreSQL {2}18\..* comes with Assay$/)
  expect(findCheckLines(ran, 'settings')).toBe('✓ settings  valid')
  expect(findCheckLines(ran, 'data folder')).toBe(`✓ data folder  ${data}, writable, closed to others`)
  expect(findCheckLines(ran, 'disk')).toMatch(/^✓ disk {2}[\d.]+ GB are free$/)
  expect(findCheckLines(ran, 'database')).toMatch(/^✓ database {2}PostgreSQL 18/)
  expect(findCheckLines(ran, 'migrations')).toBe('✓ migrations  complete')
  expect(findCheckLines(ran, 'master key')).toMatch(/^✓ master key {2}[0-9a-f]{16} fits the database$/)
  expect(findCheckLines(ran, 'audit log')).toBe('✓ audit log  unbroken in the one workspace')
  expect(findCheckLines(ran, 'workers')).toBe('✓ workers  1 alive')
  expect(findCheckLines(ran, 'blobs')).toBe('✓ blobs  written, read back and removed')
  expect(findCheckLines(ran, 'service')).toBe(`✓ service  ready at ${service.url}`)
  expect(findCheckLines(ran, 'epoll watches')).toMatch(/^[✓–] epoll watches {2}\d+/)
})

test('checks the data folder that other commands use', async () => {
  const elsewhere = { ASSAY_PORT: '1' }
  for (const ran of [
    await doctor({ ...elsewhere, ASSAY_URL: service.url }),
    await doctor(elsewhere, ['--url', service.url]),
  ])
    expect(findCheckLines(ran, 'service')).toBe(`✓ service  ready at ${service.url}`)
})

test('lists the usable sandboxes, and why others are not usable', async () => {
  await using database = await testDatabase()
  const fix = '    fix: assay setup --yes bwrap, or start Docker; then restart the service.'
  const sandboxes = async () => findCheckLines(await doctor({ DATABASE_URL: database.url }), 'sandboxes')
  const offer = (available: boolean, detail: string, sandbox = 'local') =>
    database.pool.query(
      `insert into sandbox_offers (worker_id, sandbox, available, isolation, detail)
       values ('0198c0de-0000-7000-8000-000000000000', $3, $1, 'bwrap', $2)
       on conflict (worker_id, sandbox) do update set available = $1, detail = $2`,
      [available, detail, sandbox],
    )
  expect(await sandboxes()).toBe(`– sandboxes  no worker can run a trial\n${fix}`)
  await offer(false, 'There is no bwrap here.')
  expect(await sandboxes()).toBe(`– sandboxes  no worker can run a trial. local: There is no bwrap here.\n${fix}`)
  await offer(true, '')
  expect(await sandboxes()).toBe('✓ sandboxes  local (bwrap)')
  await offer(false, 'There is no Docker here.', 'docker')
  expect(await sandboxes()).toBe('✓ sandboxes  local (bwrap)')
  await offer(false, 'The image registry does not answer.', 'kubernetes')
  expect(await sandboxes()).toBe(
    '– sandboxes  local (bwrap); kubernetes: The image registry does not answer.\n    fix: Correct the settings of that sandbox.',
  )
})

test('the running service reports every check without details about the server', async () => {
  const { status, body } = await call({ url: service.url, key: service.newKey }, readDoctor, {
    params: { org: 'local' },
  })
  expect({ status, ok: body.ok }).toEqual({ status: 200, ok: true })
  const parts = ['database', 'migrations', 'master key', 'clock', 'blobs', 'workers']
  expect(body.checks.map(({ name }) => name)).toEqual([...parts, 'credentials', 'sandboxes'])
  for (const { name, detail } of body.checks) if (parts.includes(name)) expect(detail).toBe('works')
})

test('--json prints the API shape and the required checks', async () => {
  const { code, out, err } = await doctor({}, ['--json'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const { ok, checks } = readDoctor.answers[200].parse(JSON.parse(out))
  expect(ok).toBe(true)
  expect(checks.map(({ name }) => name)).toEqual(expect.arrayContaining(['database', 'master key', 'git', 'docker']))
  expect(JSON.parse(out).checks.find(({ name }: { name: string }) => name === 'docker').required).toBe(false)
})

test('reports parts that are not installed as notes with the install command, not as failures', async () => {
  const ran = await doctor({ PATH: '/nowhere' })
  expect(ran.code).toBe(0)
  for (const part of ['git', 'bwrap', 'runc', 'docker']) {
    expect(findCheckLines(ran, part)).toMatch(
      new RegExp(`^– ${part}  not installed; it is for .*\n    fix: assay setup ${part}$`),
    )
  }
})

test('a key file that others can read', async () => {
  const file = join(data, 'secret.key')
  chmodSync(file, 0o640)
  const ran = await doctor()
  chmodSync(file, 0o600)
  expect(ran.code).toBe(1)
  expect(ran.err).toBe('1 required check failed.\n')
  expect(findCheckLines(ran, 'master key')).toBe(
    `✗ master key  ${file} can be read or written by others\n    fix: chmod 600 ${file}`,
  )
})

test('reports a wrong or missing master key', async () => {
  await using database = await testDatabase()
  await openKeyring({ db: database.db, dataFolder: join(folder.path, 'keys') })
  const env = { DATABASE_URL: database.url, ASSAY_DATA: join(folder.path, 'keys'), ASSAY_PORT: '0' }
  expect((await doctor(env)).code).toBe(0)

  writeFileSync(join(folder.path, 'keys', 'secret.key'), `${'0123456789abcdef'.repeat(4)}\n`)
  const other = await doctor(env)
  expect(other.code).toBe(1)
  expect(findCheckLines(other, 'master key')).toMatch(
    /^✗ master key {2}.* contains another key\. .*\n {4}fix: Put the key file back/,
  )

  const none = await doctor({ ...env, ASSAY_DATA: join(folder.path, 'no keys') })
  expect(none.code).toBe(1)
  expect(findCheckLines(none, 'master key')).toMatch(/^✗ master key {2}.* does not exist\. /)
  expect((await doctor({ ...env, ASSAY_CREDENTIAL_STORAGE: 'off' })).code).toBe(0)
})

test('reports an unreachable database without its password', async () => {
  const ran = await doctor({ DATABASE_URL: 'postgres://someone:hunter2@127.0.0.1:1/assay' })
  expect(ran.code).toBe(1)
  expect(findCheckLines(ran, 'PostgreSQL')).toBe('✓ PostgreSQL  of your own, at 127.0.0.1:1/assay (DATABASE_URL)')
  expect(findCheckLines(ran, 'database')).toMatch(
    /^✗ database {2}connect ECONNREFUSED 127\.0\.0\.1:1\. Migrations, .* not checked\n {4}fix: Start PostgreSQL, or correct DATABASE_URL\.$/,
  )
  expect(ran.out + ran.err).not.toContain('hunter2')
})

test('missing migrations', async () => {
  await using database = await testDatabase()
  await database.pool.query("delete from kysely_migration where name >= '0002'")
  const ran = await doctor({ DATABASE_URL: database.url })
  expect(ran.code).toBe(1)
  expect(findCheckLines(ran, 'migrations')).toMatch(
    /^✗ migrations {2}missing: 0002_jobs, .*\n {4}fix: Run assay migrate/,
  )
})

test('a broken audit log', async () => {
  await using database = await testDatabase()
  await ensureBootstrapKey(database.db, newKey())
  await database.pool.query("update audit_events set subject = 'another'")
  const ran = await doctor({ DATABASE_URL: database.url, ASSAY_CREDENTIAL_STORAGE: 'off' })
  expect(ran.code).toBe(1)
  expect(findCheckLines(ran, 'audit log')).toMatch(/^✗ audit log {2}broken in the workspaces local\n {4}fix: /)
})

test('a service without workers', async () => {
  await using database = await testDatabase()
  const ran = await doctor({ DATABASE_URL: database.url, ASSAY_CREDENTIAL_STORAGE: 'off' })
  expect(ran.code).toBe(1)
  expect(findCheckLines(ran, 'workers')).toBe(
    '✗ workers  none was seen within 60 s\n    fix: Start assay serve or assay work.',
  )
})

test('reports invalid and unknown settings without crashing', async () => {
  const ran = await doctor({ ASSAY_PORT: 'abc', ASSAY_OPERATOR_KEY: 'hunter2', ASSAY_DATABASE_CONECTIONS: '5' })
  expect(ran.code).toBe(1)
  expect(ran.out).toMatch(
    /\n✗ settings +ASSAY_PORT must be a whole number from 0 to 65535\.\n {4}fix: Correct the setting/,
  )
  expect(ran.out).toMatch(/\n✗ settings +ASSAY_OPERATOR_KEY is too weak/)
  expect(ran.out).toMatch(
    /\n– settings +ASSAY_DATABASE_CONECTIONS is not a setting.*\n.* Did you mean ASSAY_DATABASE_CONNECTIONS\?/,
  )
  expect(ran.out).not.toContain('hunter2')
  expect(
    (await doctor({ ASSAY_LOGS: 'info', ASSAY_KEY: 'x', ASSAY_URL: 'x' })).out.match(/is not a setting/g),
  ).toHaveLength(1)
})

test('reports an unusable blob store', async () => {
  const file = join(folder.path, 'no-folder')
  writeFileSync(file, '')
  const ran = await doctor({ ASSAY_BLOBS: `file:${file}` })
  expect(ran.code).toBe(1)
  expect(findCheckLines(ran, 'blobs')).toMatch(
    /^✗ blobs {2}.*no-folder.*\n {4}fix: Make the folder or bucket in ASSAY_BLOBS writable/,
  )
  expect(findCheckLines(await doctor({ ASSAY_BLOBS: 's3://-/x' }), 'blobs')).toMatch(
    /^✗ blobs {2}ASSAY_BLOBS is not valid: /,
  )
})

test('another program at the address', async () => {
  await using server = await localServer((_, response) => response.end('hello'))
  const ran = await doctor({ ASSAY_PORT: String(server.port) })
  expect(ran.code).toBe(1)
  expect(findCheckLines(ran, 'service')).toMatch(
    /^✗ service {2}another program answers at .*\n {4}fix: Choose another ASSAY_PORT\.$/,
  )
})

test.skipIf(!hasTerminal)('colours the marks on a terminal unless NO_COLOR is set', async () => {
  const env = { ASSAY_DATA: data, ASSAY_PORT: new URL(service.url).port, PATH: '/usr/bin:/bin' }
  const { code, out } = await onTerminal(['doctor'], env, () => undefined)
  expect(code, out).toBe(0)
  expect(out).toContain('\u001b[32m✓\u001b[39m database')
  const plain = await onTerminal(['doctor'], { ...env, NO_COLOR: '1' }, () => undefined)
  expect(plain.out).not.toContain('\u001b[')
})

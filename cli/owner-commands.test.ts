import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { newKey } from '../src/workspaces/key.ts'
import { createKey } from '../src/workspaces/schema.ts'
import { ensureBootstrapKey } from '../src/workspaces/workspaces.ts'
import { assay, scratchFolder } from '../test/support/assay-command.ts'
import { testDatabase } from '../test/support/database.ts'
import { startService } from '../test/support/service.ts'

const folder = scratchFolder()
afterAll(folder.remove)

test('migrate: lists the migrations that ran, and reports when there are none', async () => {
  await using database = await testDatabase()
  await database.pool.query('drop schema public cascade')
  await database.pool.query('create schema public')
  const env = { DATABASE_URL: database.url }

  const first = await assay(['migrate'], { env })
  expect(first.code, first.err).toBe(0)
  expect(first.out).toMatch(/^0001_workspaces\n0002_jobs\n/)
  expect(first.err).toMatch(/^\d+ migrations ran\.\n$/)
  expect(await assay(['migrate'], { env })).toEqual({
    code: 0,
    out: '',
    err: 'The database is up to date.\n',
  })
})

test('migrate: reports a database that cannot be changed in one sentence', async () => {
  await using database = await testDatabase()
  await database.pool.query("delete from kysely_migration where name = '0002_jobs'")
  const { code, out, err } = await assay(['migrate'], { env: { DATABASE_URL: database.url } })
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toMatch(/^error: Migrating the database failed: .+\n$/)
})

test('recover, rotate and verify work on a running and on a stopped service', async () => {
  const data = join(folder.path, 'data')
  const first = await startService('serve', ['--data', data, '--port', '0'])
  const client = { ASSAY_URL: first.url, ASSAY_KEY: first.newKey ?? '' }
  const add = ['credentials', 'add', 'model', 'openai', '--name', 'x', '--from-env', 'apiKey=MODEL']
  const added = await assay(add, { env: { ...client, MODEL: 'sk-0123456789abcdef' } })
  expect(added.code, added.err).toBe(0)

  const before = readFileSync(join(data, 'secret.key'), 'utf8')
  const rotated = await assay(['credentials', 'rotate-master-key', '--data', data])
  expect(rotated).toMatchObject({ code: 0, err: '' })
  expect(rotated.out).toMatch(/^[0-9a-f]{16} → [0-9a-f]{16}, 1 credentials re-encrypted\n$/)
  expect(readFileSync(join(data, 'secret.key'), 'utf8')).not.toBe(before)
  expect(await first.kill('SIGTERM')).toBe(0)

  const recovered = await assay(['keys', 'recover', '--data', data])
  expect(recovered.err).toBe('New admin key of the workspace local, shown only once:\n')
  expect(await assay(['audit', 'verify', '--data', data])).toEqual({
    code: 0,
    out: 'WORKSPACE  AUDIT LOG\nlocal      unbroken\n',
    err: '',
  })
  expect((await assay(['keys', 'recover', '--data', data, '--org', 'nowhere'])).err).toBe(
    'error: Workspace nowhere not found.\n',
  )

  const second = await startService('serve', ['--data', data, '--port', '0'])
  const env = { ASSAY_URL: second.url, ASSAY_KEY: recovered.out.trim() }
  expect((await assay(['keys', 'list'], { env })).out).toContain('  recovered key  admin ')
  expect((await assay(['audit'], { env })).out).toMatch(/ operator +key\.created .* name="?recovered key"? /)
  await second.kill('SIGTERM')
})

test('recover --json prints the created key like the API', async () => {
  await using database = await testDatabase()
  await ensureBootstrapKey(database.db, newKey())
  const { code, out } = await assay(['keys', 'recover', '--json'], { env: { DATABASE_URL: database.url } })
  expect(code).toBe(0)
  expect(createKey.answers[201].parse(JSON.parse(out))).toMatchObject({ name: 'recovered key', permission: 'admin' })
})

test.each([
  ['keys', 'recover'],
  ['audit', 'verify'],
  ['credentials', 'rotate-master-key'],
])('%s %s does not create a missing database', async (...args) => {
  const data = join(folder.path, 'nowhere')
  const { code, out, err } = await assay([...args, '--data', data])
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toBe(`error: ${data} does not exist. Name the folder of the service with --data or ASSAY_DATA.\n`)
})

test('audit verify names the workspace and the event that was changed, and fails', async () => {
  await using database = await testDatabase()
  await ensureBootstrapKey(database.db, newKey())
  await database.pool.query("update audit_events set actor = 'operator' where sequence = 1")
  const env = { DATABASE_URL: database.url }

  expect(await assay(['audit', 'verify'], { env })).toEqual({
    code: 1,
    out: 'WORKSPACE  AUDIT LOG\nlocal      broken at event 1\n',
    err: '',
  })
  const json = await assay(['audit', 'verify', '--json'], { env })
  expect(json.code).toBe(1)
  expect(JSON.parse(json.out)).toEqual({ chains: [{ login: 'local', brokenAt: 1 }] })
})

test('rotate-master-key refuses without the key in use and prints no key', async () => {
  await using database = await testDatabase()
  const data = join(folder.path, 'variable')
  const [right, wrong] = ['0123456789abcdef'.repeat(4), 'fedcba9876543210'.repeat(4)]
  const env = { DATABASE_URL: database.url, ASSAY_DATA: data, ASSAY_SECRET_KEY: right }
  const service = await startService('api', ['--port', '0'], env)
  await service.kill('SIGTERM')

  const rotate = (key: string) =>
    assay(['credentials', 'rotate-master-key'], { env: { ...env, ASSAY_SECRET_KEY: key } })
  const refused = await rotate(wrong)
  expect(refused).toMatchObject({ code: 1, out: '' })
  expect(refused.err).toMatch(/^error: The stored credentials are sealed with master key [0-9a-f]{16}, which .*\n$/)
  expect(refused.err).not.toContain(wrong)

  const same = await rotate(right)
  expect(same).toMatchObject({ code: 0, out: '', err: expect.stringMatching(/^Nothing to do: ASSAY_SECRET_KEY /) })
  expect((await rotate(`${wrong},${right}`)).out).toMatch(/ → [0-9a-f]{16}, 0 credentials re-encrypted\n$/)
})

test('rotate-master-key refuses while a running process holds the old key alone; forced, that process is not ready', async () => {
  await using database = await testDatabase()
  const [old, fresh] = ['0123456789abcdef'.repeat(4), 'fedcba9876543210'.repeat(4)]
  const env = { DATABASE_URL: database.url, ASSAY_DATA: join(folder.path, 'holders'), ASSAY_SECRET_KEY: old }
  const service = await startService('api', ['--port', '0'], env)
  const rotate = (...flags: string[]) =>
    assay(['credentials', 'rotate-master-key', ...flags], { env: { ...env, ASSAY_SECRET_KEY: `${fresh},${old}` } })
  const readiness = async () => {
    const response = await fetch(`${service.url}/readyz`)
    return { status: response.status, text: await response.text() }
  }
  expect(await readiness()).toMatchObject({ status: 200 })

  const refused = await rotate()
  expect(refused).toMatchObject({ code: 1, out: '' })
  expect(refused.err).toMatch(/^error: The new master key cannot be read by process \d+ on .* --force /)
  expect(await readiness()).toMatchObject({ status: 200 })

  expect(await rotate('--force')).toMatchObject({ code: 0 })
  const { status, text } = await readiness()
  expect(status).toBe(503)
  expect(text).not.toMatch(/[0-9a-f]{16}/)
  const client = { ASSAY_URL: service.url, ASSAY_KEY: service.newKey ?? '', MODEL: 'sk-0123456789abcdef' }
  const add = ['credentials', 'add', 'model', 'openai', '--name', 'x', '--from-env', 'apiKey=MODEL']
  const failed = await assay(add, { env: client })
  expect(failed.code).toBe(3)
  expect(failed.err).toContain('does not hold the master key in use')
  await service.kill('SIGTERM')

  const restarted = await startService('api', ['--port', '0'], { ...env, ASSAY_SECRET_KEY: fresh })
  expect((await assay(add, { env: { ...client, ASSAY_URL: restarted.url } })).code).toBe(0)
  await restarted.kill('SIGTERM')
})

import { expect, test } from 'vitest'
import { OPERATOR_KEY, testApp } from '../../test/support/app.ts'
import { testDatabase } from '../../test/support/database.ts'
import { upsertCapability } from '../catalog/sql.ts'
import { newId } from '../platform/ids.ts'
import { findBrokenLink } from './audit.ts'
import { isKey, newKey } from './key.ts'
import * as schema from './schema.ts'
import { createFirstWorkspace, ensureBootstrapKey, findMemoryShare } from './workspaces.ts'

test('the operator creates a workspace with its first key', async () => {
  await using app = await testApp()
  const create = () =>
    app.call(schema.createWorkspace, { key: OPERATOR_KEY, body: { login: 'Acme', name: 'Acme Inc.' } })
  const created = await create()
  expect(created).toMatchObject({ status: 201, body: { login: 'Acme', name: 'Acme Inc.', kind: 'org' } })
  expect(isKey(created.body.key)).toBe(true)

  const read = await app.call(schema.readWorkspace, { key: created.body.key, params: { org: 'aCME' } })
  expect(read).toMatchObject({ status: 200, body: { login: 'Acme', credentialStorage: true } })

  const taken = await app.call(schema.createWorkspace, { key: OPERATOR_KEY, body: { login: 'acME', name: 'Other' } })
  expect(taken).toMatchObject({ status: 409, body: { code: 'login_taken' } })
})

test('the operator key gives access to no workspace', async () => {
  await using app = await testApp()
  expect((await app.call(schema.readWorkspace, { key: OPERATOR_KEY })).status).toBe(401)
})

test('jobs of one workspace may take all memory of a host until there is a second workspace', async () => {
  await using app = await testApp()
  expect(await findMemoryShare(app.database.db)).toBe(1)
  await app.otherWorkspace()
  expect(await findMemoryShare(app.database.db)).toBe(0.75)
})

test('without an operator key workspaces cannot be created', async () => {
  await using app = await testApp({ ASSAY_OPERATOR_KEY: '' })
  const body = { login: 'acme', name: 'Acme' }
  expect((await app.call(schema.createWorkspace, { key: OPERATOR_KEY, body })).status).toBe(401)
  expect((await app.call(schema.createWorkspace, { body })).status).toBe(403)
})

test('an empty database gets one workspace and one key, also when many processes start at once', async () => {
  await using database = await testDatabase()
  const starts = await Promise.all([1, 2, 3, 4].map(() => createFirstWorkspace(database.db)))
  expect(starts.filter((key) => key !== undefined)).toHaveLength(1)
  expect(await createFirstWorkspace(database.db)).toBeUndefined()
})

test('every start restores a revoked or weakened bootstrap key', async () => {
  await using database = await testDatabase()
  const key = newKey()
  const keys = async () => (await database.pool.query('select name, permission, expires_at from api_keys')).rows
  const whole = [{ name: 'bootstrap key', permission: 'admin', expires_at: null }]
  await ensureBootstrapKey(database.db, key)
  await ensureBootstrapKey(database.db, key)
  expect(await keys()).toEqual(whole)
  await database.pool.query(`update api_keys set permission = 'read', expires_at = now()`)
  await ensureBootstrapKey(database.db, key)
  expect(await keys()).toEqual(whole)
  await database.pool.query('delete from api_keys')
  await ensureBootstrapKey(database.db, key)
  expect(await keys()).toEqual(whole)
})

test('a bootstrap key that belongs to another workspace stops the start', async () => {
  await using app = await testApp()
  const other = await app.otherWorkspace()
  await expect(ensureBootstrapKey(app.database.db, other.key)).rejects.toThrow(/ASSAY_BOOTSTRAP_KEY/)
})

test('the audit log lists events newest first and detects changed or missing rows', async () => {
  await using app = await testApp()
  const id = (await app.database.pool.query('select id from workspaces')).rows[0].id
  const answer = await app.call(schema.createKey, {
    body: { name: 'ci', permission: 'read' },
    headers: { 'x-request-id': 'req-1' },
  })
  await app.call(schema.deleteKey, { params: { keyId: answer.body.id } })
  const { body } = await app.call(schema.listAudit, { query: { limit: '2' } })
  expect(body.events).toMatchObject([
    { action: 'key.revoked', subject: answer.body.id },
    { action: 'key.created', subject: answer.body.id, requestId: 'req-1', detail: { name: 'ci', permission: 'read' } },
  ])
  const rest = await app.call(schema.listAudit, { query: { limit: '2', cursor: body.nextCursor } })
  expect(rest.body).toMatchObject({ events: [{ action: 'key.created', actor: 'system' }], nextCursor: null })

  expect(await findBrokenLink(app.database.db, id)).toBeUndefined()
  await app.database.pool.query(`update audit_events set actor = 'nobody' where sequence = 2`)
  expect(await findBrokenLink(app.database.db, id)).toBe(2)
  await app.database.pool.query('delete from audit_events where sequence = 2')
  expect(await findBrokenLink(app.database.db, id)).toBe(3)
})

test('verification of the audit log finds that its newest events, or all of them, were removed', async () => {
  await using app = await testApp()
  await app.call(schema.createKey, { body: { name: 'ci', permission: 'read' } })
  const id = (await app.database.pool.query('select id from workspaces')).rows[0].id
  expect(await findBrokenLink(app.database.db, id)).toBeUndefined()
  await app.database.pool.query('delete from audit_events where sequence = 2')
  expect(await findBrokenLink(app.database.db, id)).toBe(2)
  await app.database.pool.query('delete from audit_events')
  expect(await findBrokenLink(app.database.db, id)).toBe(1)
})

test('events of concurrent requests form one chain', async () => {
  await using app = await testApp()
  const make = (n: number) => app.call(schema.createKey, { body: { name: `k${n}`, permission: 'read' } })
  await Promise.all(Array.from({ length: 20 }, (_, n) => make(n)))
  const id = (await app.database.pool.query('select id from workspaces')).rows[0].id
  expect(await findBrokenLink(app.database.db, id)).toBeUndefined()
  const { body } = await app.call(schema.listAudit)
  expect(body.events).toHaveLength(21)
})

test('the doctor passes on a healthy service and reports a missing worker', async () => {
  await using app = await testApp()
  const lame = await app.call(schema.readDoctor)
  expect(lame.body.checks.filter((check: schema.HealthCheck) => !check.ok)).toMatchObject([
    { name: 'workers' },
    { name: 'sandboxes' },
  ])
  await app.database.pool.query(`insert into workers (id, host, process_id) values (gen_random_uuid(), 'here', 1)`)
  await upsertCapability(app.database.db, newId(), {
    sandbox: 'local',
    available: true,
    isolation: 'bwrap',
    detail: '',
  })
  const { body } = await app.call(schema.readDoctor)
  expect(body.ok).toBe(true)
  expect(body.checks.map((check: schema.HealthCheck) => check.name)).toContain('database')
  expect(body.checks).toContainEqual({ name: 'sandboxes', ok: true, detail: 'local (bwrap)', fix: null })
})

test('the operator sees live worker processes with their jobs, and the disk; keys of workspaces do not', async () => {
  await using app = await testApp()
  const insert = (host: string, seen: string) =>
    app.database.pool.query(
      `insert into workers (id, host, process_id, seen_at) values (gen_random_uuid(), $1, 1, now() - $2::interval) returning id`,
      [host, seen],
    )
  const { rows } = await insert('here', '1 second')
  await insert('here', '2 seconds')
  await insert('gone', '1 hour')
  await app.database.pool.query(
    `insert into jobs (id, type, payload, failures_max, state, lease_id, leased_until, worker_id)
     values (gen_random_uuid(), 'test', '{}', 1, 'running', gen_random_uuid(), now() + interval '1 minute', $1)`,
    [rows[0].id],
  )
  const { status, body } = await app.call(schema.readOperations, { key: OPERATOR_KEY })
  expect(status).toBe(200)
  expect(body.workers).toMatchObject([{ host: 'here', processId: 1, jobs: 1 }])
  expect(body.disk.freeBytes).toBeLessThanOrEqual(body.disk.totalBytes)
  expect((await app.call(schema.readOperations)).status).toBe(403)
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { listEvents } from '../workspaces/audit.ts'
import { createKey } from '../workspaces/schema.ts'
import { createConfiguration, listConfigurations, type NewConfiguration, readConfiguration } from './schema.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const file = (path: string, text = 'Be careful.\n') => ({ path, text })
const create = (body: z.input<typeof NewConfiguration>, more: object = {}) =>
  app.call(createConfiguration, { body: body as never, ...more })
const read = (name: string, query: Record<string, string> = {}) =>
  app.call(readConfiguration, { params: { name }, query })

test('versions count from 1, never change, and the same content is the same version', async () => {
  const first = await create({ name: 'agents-md', files: [file('AGENTS.md'), file('docs/a.md', 'ä')] })
  expect(first).toMatchObject({
    status: 201,
    body: {
      name: 'agents-md',
      version: 1,
      digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      files: [
        { path: 'AGENTS.md', bytes: 12 },
        { path: 'docs/a.md', bytes: 2 },
      ],
    },
  })
  const again = await create({ name: 'agents-md', files: [file('docs/a.md', 'ä'), file('AGENTS.md')], mcpServers: [] })
  expect([again.status, again.body]).toEqual([200, first.body])
  expect(await create({ name: 'agents-md', files: [file('AGENTS.md', 'Be quick.\n')] })).toMatchObject({
    status: 201,
    body: { version: 2 },
  })
  expect((await create({ name: 'agents-md', files: [file('AGENTS.md'), file('docs/a.md', 'ä')] })).body).toEqual(
    first.body,
  )
  expect((await create({ name: 'other', files: [file('AGENTS.md'), file('docs/a.md', 'ä')] })).body).toMatchObject({
    version: 1,
    digest: first.body.digest,
  })
  expect((await read('agents-md')).body).toMatchObject({ version: 2, files: [{ text: 'Be quick.\n' }] })
  expect((await read('agents-md', { version: '1' })).body).toMatchObject({
    version: 1,
    digest: first.body.digest,
    files: [{ path: 'AGENTS.md', text: 'Be careful.\n', executable: false }, { path: 'docs/a.md' }],
    instructionPrefix: '',
    mcpServers: [],
    harnesses: {},
  })
  expect(await read('agents-md', { version: '3' })).toMatchObject({ status: 404 })
  expect(await read('unknown')).toMatchObject({ status: 404 })
  const { configurations } = (await app.call(listConfigurations)).body
  expect(
    configurations.slice(0, 3).map(({ name, version }: { name: string; version: number }) => [name, version]),
  ).toEqual([
    ['other', 1],
    ['agents-md', 2],
    ['agents-md', 1],
  ])
})

test('two requests with the same content at the same time create one version', async () => {
  const answers = await Promise.all(Array.from({ length: 8 }, () => create({ name: 'raced', files: [file('A.md')] })))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 200, 200, 201])
  expect(new Set(answers.map(({ body }) => body.version))).toEqual(new Set([1]))
})

test.each<[string, object, string, string]>([
  ['an absolute path', { files: [file('/etc/passwd')] }, '/files/0/path', 'path_outside'],
  ['path traversal', { files: [file('docs/../../x')] }, '/files/0/path', 'path_outside'],
  ['a path with a backslash', { files: [file('docs\\x')] }, '/files/0/path', 'path_outside'],
  ['a path on a drive', { files: [file('C:/x')] }, '/files/0/path', 'path_outside'],
  ['an empty path', { files: [file('')] }, '/files/0/path', 'path_outside'],
  ['a path with a dot', { files: [file('./x')] }, '/files/0/path', 'path_outside'],
  ['a folder', { files: [file('docs/')] }, '/files/0/path', 'path_outside'],
  ['a path in .git', { files: [file('sub/.GIT/config')] }, '/files/0/path', 'path_reserved'],
  ['a long name', { files: [file('ä'.repeat(200))] }, '/files/0/path', 'path_too_long'],
  ['two paths that differ in case', { files: [file('AGENTS.md'), file('agents.MD')] }, '/files/1/path', 'duplicate'],
  ['a file that is a folder of another', { files: [file('a/b'), file('A')] }, '/files/1/path', 'duplicate'],
  ['201 files', { files: Array.from({ length: 201 }, (_, n) => file(`f${n}`)) }, '/files', 'too_big'],
  ['more than 1 MB', { files: [file('a', 'x'.repeat(600_000)), file('b', 'y'.repeat(400_001))] }, '/files', 'too_big'],
  ['the reserved name', { name: 'none' }, '/name', 'custom'],
  ['a name with an at sign', { name: 'a@1' }, '/name', 'invalid_format'],
  [
    'a URL with a password',
    { mcpServers: [{ name: 'a', url: 'https://u:p@example.com/' }] },
    '/mcpServers/0/url',
    'custom',
  ],
  [
    'two servers of one name',
    {
      mcpServers: [
        { name: 'a', command: ['x'] },
        { name: 'a', command: ['y'] },
      ],
    },
    '/mcpServers/1/name',
    'duplicate',
  ],
  ['an unknown harness', { harnesses: { nobody: {} } }, '/harnesses/nobody', 'unknown_harness'],
  [
    'an argument that selects a model',
    { harnesses: { 'claude-code': { arguments: ['--model=x'] } } },
    '/harnesses/claude-code/arguments/0',
    'argument_not_allowed',
  ],
  [
    'an argument without a value',
    { harnesses: { 'claude-code': { arguments: ['--max-turns'] } } },
    '/harnesses/claude-code/arguments/0',
    'argument_not_allowed',
  ],
  [
    'arguments of a harness that allows none',
    { harnesses: { pi: { arguments: ['--x=y'] } } },
    '/harnesses/pi/arguments/0',
    'argument_not_allowed',
  ],
])('%s is refused with a pointer, and nothing is stored', async (_, over, pointer, code) => {
  const before = await countRows()
  const answer = await create({ name: 'refused', ...over })
  expect(answer).toMatchObject({ status: 422, body: { errors: [{ pointer, code }] } })
  expect(await countRows()).toBe(before)
})

const countRows = async () =>
  Number((await app.database.pool.query('select count(*) from configurations')).rows[0].count)

test('allowed arguments and MCP servers of both kinds are stored', async () => {
  const body = {
    name: 'everything',
    instructionPrefix: 'First.',
    instructionSuffix: 'Last.',
    mcpServers: [
      { name: 'local', command: ['node', 'server.mjs'] },
      { name: 'remote', url: 'https://mcp.example.com/v1' },
    ],
    harnesses: { 'claude-code': { version: '1.2.3', arguments: ['--max-turns=50', '--append-system-prompt=a=b'] } },
  }
  expect((await create(body)).status).toBe(201)
  expect((await read('everything')).body).toMatchObject(body)
})

test('needs the permission to write, records who created it, and other workspaces do not see it', async () => {
  const { body: reader } = await app.call(createKey, { body: { name: 'reader', permission: 'read' } })
  expect(await create({ name: 'denied' }, { key: reader.key })).toMatchObject({ status: 403 })
  expect(await app.call(readConfiguration, { params: { name: 'agents-md' }, key: reader.key })).toMatchObject({
    status: 200,
  })
  const { rows } = await app.database.pool.query("select id from workspaces where login = 'local'")
  const { events } = await listEvents(app.database.db, rows[0].id, { limit: 200 })
  expect(events).toContainEqual(
    expect.objectContaining({
      action: 'configuration.created',
      subject: 'agents-md',
      detail: expect.objectContaining({ version: '2' }),
    }),
  )
  const other = await app.otherWorkspace('configuration-neighbour')
  const own = { params: { org: other.login, name: 'agents-md' }, key: other.key }
  expect(await app.call(readConfiguration, own)).toMatchObject({ status: 404 })
})

test('a workspace cannot store more than 10,000 versions', async () => {
  const other = await app.otherWorkspace('configuration-collector')
  await app.database.pool.query(
    `insert into configurations (id, workspace_id, name, version, digest, files)
     select gen_random_uuid(), $1, 'many', n, 'sha256:' || n, '[]' from generate_series(1, 10000) as n`,
    [other.id],
  )
  const full = await create({ name: 'many', files: [file('x')] }, { params: { org: other.login }, key: other.key })
  expect(full).toMatchObject({ status: 409, body: { code: 'configurations_full' } })
})

test('a workspace cannot store more than 1 GB of configurations', async () => {
  const other = await app.otherWorkspace('configuration-hoarder')
  await app.database.pool.query(
    `insert into configurations (id, workspace_id, name, version, digest, files, bytes)
     select gen_random_uuid(), $1, 'large', n, 'sha256:' || n, '[]', 1000000 from generate_series(1, 999) as n`,
    [other.id],
  )
  const store = (text: string) =>
    create({ name: 'large', files: [file('x', text)] }, { params: { org: other.login }, key: other.key })
  const full = await store('a'.repeat(999_990))
  expect(full).toMatchObject({ status: 409, body: { code: 'configurations_full' } })
  expect(full.body.detail).toContain('1000 MB')
  expect(await store('a'.repeat(900_000))).toMatchObject({ status: 201 })
  expect(await store('b'.repeat(900_000))).toMatchObject({ status: 409 })
})

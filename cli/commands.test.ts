import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { call } from '../src/platform/http/client.ts'
import { isKey, newKey } from '../src/workspaces/key.ts'
import * as schema from '../src/workspaces/schema.ts'
import { assay, BIN, bareEnvironment, type CommandResult, scratchFolder } from '../test/support/assay-command.ts'
import { type ServiceProcess, startService } from '../test/support/service.ts'

const operatorKey = newKey()
const key = newKey()
const folder = scratchFolder()
let service: ServiceProcess

beforeAll(async () => {
  const env = { ASSAY_BOOTSTRAP_KEY: key, ASSAY_OPERATOR_KEY: operatorKey }
  service = await startService('serve', ['--data', folder.path, '--port', '0'], env)
})

afterAll(async () => {
  await service.kill('SIGTERM')
  folder.remove()
})

/** With the admin key, unless another is given. */
const run = (args: string[], env: Record<string, string> = {}): Promise<CommandResult> =>
  assay(args, { env: { ASSAY_URL: service.url, ASSAY_KEY: key, ...env } })

const REQUEST = 'request [0-9a-f-]{36}-[0-9a-z]+'

test('orgs show: prints the workspace of the key as text or JSON', async () => {
  const plain = await run(['orgs', 'show'])
  expect(plain).toMatchObject({ code: 0, err: '' })
  expect(plain.out).toMatch(
    /^login {15}local\nname {16}Local\nkind {16}org\ncredential storage {2}on\ncreated {13}\d{4}-/,
  )

  const json = await run(['orgs', 'show', '--json'])
  expect(schema.Workspace.parse(JSON.parse(json.out)).login).toBe('local')
})

test('orgs create: prints only the key of the new workspace, which is valid', async () => {
  const created = await run(['orgs', 'create', 'Acme', '--name', 'Acme Inc.', '--kind', 'user'], operator())
  expect(created.code).toBe(0)
  expect(created.out).toMatch(/^assay_\w{38}\n$/)
  expect(created.err).toContain('Created the workspace Acme')
  const shown = await run(['orgs', 'show', '--json', '--org', 'acme'], { ASSAY_KEY: created.out.trim() })
  expect(JSON.parse(shown.out)).toMatchObject({ login: 'Acme', name: 'Acme Inc.', kind: 'user' })
})

test('orgs create: the name defaults to the login, and --json prints the API response', async () => {
  const { out } = await run(['orgs', 'create', 'lab', '--json'], operator())
  const workspace = schema.createWorkspace.answers[201].parse(JSON.parse(out))
  expect(workspace).toMatchObject({ login: 'lab', name: 'lab', kind: 'org' })
  expect(isKey(workspace.key)).toBe(true)
})

const operator = () => ({ ASSAY_OPERATOR_KEY: operatorKey, ASSAY_KEY: '' })

test('orgs create: refuses a used login, an invalid login and a wrong operator key', async () => {
  await run(['orgs', 'create', 'twice'], operator())
  const taken = await run(['orgs', 'create', 'TWICE'], operator())
  expect(taken).toMatchObject({ code: 1, out: '' })
  expect(taken.err).toMatch(new RegExp(`^error: The login TWICE is taken\\. \\(login_taken, ${REQUEST}\\)\n$`))

  const odd = await run(['orgs', 'create', '.odd name'], operator())
  expect(odd.code).toBe(1)
  expect(odd.err).toMatch(
    new RegExp(`^error: <login>: must start with a letter or digit.*\\(invalid_request, ${REQUEST}\\)\n$`),
  )

  const stranger = await run(['orgs', 'create', 'mine'], { ASSAY_OPERATOR_KEY: newKey() })
  expect(stranger.code).toBe(1)
  expect(stranger.err).toMatch(new RegExp(`\\(unauthenticated, ${REQUEST}\\)\n$`))
})

test('keys: creates, uses, lists and revokes a key', async () => {
  const created = await run(['keys', 'create', 'for ci', '--permission', 'write', '--expires', '30d'])
  expect(created.out).toMatch(/^assay_\w{38}\n$/)
  expect(created.err).toMatch(/^The key "for ci" \(write, until \d{4}-.*Z\), shown only once:\n$/)
  const ownKey = created.out.trim()

  const listed = await run(['keys', 'list'], { ASSAY_KEY: ownKey })
  expect(listed.err).toBe('')
  expect(listed.out.split('\n')[0]).toMatch(/^ID +NAME +PERMISSION +KEY +CREATED +EXPIRES +LAST USED$/)
  expect(listed.out).toMatch(new RegExp(`  for ci +write +…${ownKey.slice(-4)}  `))
  expect(listed.out).not.toContain(ownKey)

  const id = await idOf('for ci')
  expect(await run(['keys', 'revoke', id])).toEqual({ code: 0, out: '', err: `Revoked the key ${id}.\n` })
  const dead = await run(['keys', 'list'], { ASSAY_KEY: ownKey })
  expect(dead.code).toBe(1)
  expect(dead.err).toMatch(
    new RegExp(
      `^error: .* or was revoked \\(unauthenticated, ${REQUEST}\\)\\. \`assay keys recover\` makes another\\.\n$`,
    ),
  )
})

async function idOf(name: string): Promise<string> {
  const { out } = await run(['keys', 'list', '--json'])
  const { keys } = schema.listKeys.answers[200].parse(JSON.parse(out))
  return keys.find((each) => each.name === name)?.id ?? `there is no key ${name}`
}

test('keys create: --json prints the API response with the key', async () => {
  const { out, err } = await run(['keys', 'create', 'as json', '--permission', 'read', '--json'])
  const created = schema.createKey.answers[201].parse(JSON.parse(out))
  expect({ expiresAt: created.expiresAt, isKey: isKey(created.key), err }).toEqual({
    expiresAt: null,
    isKey: true,
    err: '',
  })
})

test('keys: lists all pages', async () => {
  const client = { url: service.url, key }
  const names = Array.from({ length: 210 }, (_, n) => `many-${n}`)
  for (const name of names) {
    await call(client, schema.createKey, { params: { org: 'local' }, body: { name, permission: 'read' } })
  }
  const { out } = await run(['keys', 'list', '--json'])
  const { keys, nextCursor } = schema.listKeys.answers[200].parse(JSON.parse(out))
  const listed = new Set(keys.map(({ name }) => name))
  expect({ missing: names.filter((name) => !listed.has(name)), nextCursor }).toEqual({ missing: [], nextCursor: null })
})

test('keys: prints the code, request id and every field of a refusal', async () => {
  const past = await run(['keys', 'create', ' ', '--permission', 'read', '--expires', '2020-01-01'])
  expect(past).toMatchObject({ code: 1, out: '' })
  expect(past.err).toMatch(
    new RegExp(`^error: .* \\(invalid_request, ${REQUEST}\\)\n  <name>: .*\n  --expires: must be`),
  )

  const reader = await run(['keys', 'create', 'reader', '--permission', 'read'])
  const weak = await run(['keys', 'create', 'more', '--permission', 'admin'], { ASSAY_KEY: reader.out.trim() })
  expect(weak.code).toBe(1)
  expect(weak.err).toMatch(new RegExp(`\\(forbidden, ${REQUEST}\\)\n$`))

  const unknown = await run(['keys', 'revoke', '01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11'])
  expect(unknown.code).toBe(1)
  expect(unknown.err).toMatch(new RegExp(`^error: Key .* not found.*\\(not_found, ${REQUEST}\\)\n$`))

  const last = await run(['keys', 'revoke', await idOf('bootstrap key')])
  expect(last.code).toBe(1)
  expect(last.err).toMatch(new RegExp(`\\(last_admin_key, ${REQUEST}\\)\n$`))
})

test('distinguishes a workspace without access from one with access', async () => {
  const other = await run(['keys', 'list', '--org', 'nowhere'])
  expect(other).toEqual({
    code: 1,
    out: '',
    err: 'error: ASSAY_KEY belongs to the workspace local and gives no access to nowhere.\n',
  })
  expect((await run(['--org', 'LOCAL', 'keys', 'list'])).code).toBe(0)
})

test('audit: lists as many events as requested, newest first, over several pages', async () => {
  const plain = await run(['audit', '--limit', '3'])
  expect(plain.out.split('\n')).toHaveLength(5)
  expect(plain.out.split('\n')[0]).toMatch(/^TIME +ACTOR +ACTION +SUBJECT +DETAIL$/)
  expect(plain.out).toMatch(/ key:[0-9a-f-]{36} +key\.(created|revoked) /)

  const { out } = await run(['audit', '--limit', '205', '--json'])
  const { events, nextCursor } = schema.listAudit.answers[200].parse(JSON.parse(out))
  const ids = events.map(({ id }) => Number(id))
  expect({ count: ids.length, sorted: ids.toSorted((a, b) => b - a), more: nextCursor !== null }).toEqual({
    count: 205,
    sorted: ids,
    more: true,
  })
})

test('exits without an error if the reader of its output stops early', () => {
  const line = `"$0" "$1" keys list --json | true; exit "\${PIPESTATUS[0]}"`
  const { status, stderr } = spawnSync('bash', ['-c', line, process.execPath, BIN], {
    encoding: 'utf8',
    env: { ...bareEnvironment, ASSAY_URL: service.url, ASSAY_KEY: key },
  })
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
})

test('the audit log contains no key', async () => {
  const { out } = await run(['audit', '--limit', '9999', '--json'])
  expect(out).toContain('key.created')
  expect(out).not.toMatch(/assay_\w{38}/)
})

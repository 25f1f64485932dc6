import { afterAll, beforeAll, expect, test } from 'vitest'
import * as schema from '../src/credentials/schema.ts'
import { newKey } from '../src/workspaces/key.ts'
import {
  assay,
  type CommandResult,
  hasTerminal,
  localServer,
  onTerminal,
  scratchFolder,
} from '../test/support/assay-command.ts'
import { type ServiceProcess, startService } from '../test/support/service.ts'

const GOOD = 'sk-good-0123456789abcdef'
const BAD = 'sk-bad-0123456789abcdef'
const key = newKey()
const folder = scratchFolder()
let provider: Awaited<ReturnType<typeof localServer>>
let service: ServiceProcess

beforeAll(async () => {
  provider = await localServer(({ headers }, response) =>
    response.writeHead(headers.authorization === `Bearer ${GOOD}` ? 200 : 401).end('{}'),
  )
  service = await startService('serve', ['--data', folder.path, '--port', '0'], {
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_GATEWAY_UPSTREAM_OPENAI: provider.url,
  })
})

afterAll(async () => {
  await service.kill('SIGTERM')
  await provider[Symbol.asyncDispose]()
  folder.remove()
})

const environment = () => ({ ASSAY_URL: service.url, ASSAY_KEY: key })
const run = (args: string[], input = '', env: Record<string, string> = {}): Promise<CommandResult> =>
  assay(['credentials', ...args], { env: { ...environment(), ...env }, input })

async function stored(name: string, secret = GOOD): Promise<string> {
  const { code, out, err } = await run(['add', 'model', 'openai', '--name', name], JSON.stringify({ apiKey: secret }))
  expect(code, err).toBe(0)
  return out.trim()
}

test('providers: lists providers and the fields of each', async () => {
  const plain = await run(['providers'])
  expect(plain).toMatchObject({ code: 0, err: '' })
  expect(plain.out).toMatch(/^KIND +PROVIDER +FIELDS\n/)
  expect(plain.out).toMatch(/\nmodel +openai +apiKey\n/)
  expect(plain.out).toMatch(/\ncode-host +github +token \[host\]\n/)
  const { out } = await run(['providers', '--json'])
  expect(schema.listCredentialProviders.answers[200].parse(JSON.parse(out)).providers.length).toBeGreaterThan(5)
})

test('add: reads the secret from standard input and shows only its end', async () => {
  const id = await stored('from input')
  const listed = await run(['list'])
  expect(listed.out).toMatch(new RegExp(`\n${id} +model +openai +from input +stored +cdef +never\n`))
  const { out } = await run(['list', '--json'])
  const { credentials } = schema.listCredentials.answers[200].parse(JSON.parse(out))
  expect(credentials.find((each) => each.id === id)).toMatchObject({ name: 'from input', source: 'stored' })
  expect(listed.out + out).not.toContain(GOOD)
})

test('add: reads fields from variables, and --json prints the API response', async () => {
  const args = ['add', 'code-host', 'github', '--name', 'bot', '--from-env', 'token=BOT', 'host=WHERE', '--json']
  const { code, out, err } = await run(args, '', { BOT: 'ghp_0123456789abcdef', WHERE: 'github.com' })
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(schema.Credential.parse(JSON.parse(out))).toMatchObject({ kind: 'code-host', provider: 'github', name: 'bot' })
  expect(out).not.toContain('ghp_')
})

test.each([
  ['{"apiKey": "hunter2"'],
  ['hunter2'],
  ['["hunter2"]'],
  ['"hunter2"'],
  ['null'],
  ['{"apiKey": {"hunter2": 1}}'],
  [''],
])('add: input that is no object of texts is wrong use, and not repeated: %s', async (input) => {
  const { code, out, err } = await run(['add', 'model', 'openai', '--name', 'x'], input)
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toBe('error: Standard input must be a JSON object with texts as fields, for example {"apiKey": "…"}.\n')
})

test.each([
  [['model', 'nobody'], [], /Unknown model provider/],
  [['model', 'openai'], ['--from-env', 'sk-secret'], /--from-env must have the form field=VARIABLE/],
  [['model', 'openai'], ['--from-env', 'apiKey=sk-secret'], /--from-env must have the form field=VARIABLE/],
  [['model', 'openai'], ['--from-env', 'token=OTHER'], /Unknown field token\. There are: apiKey\./],
  [['model', 'openai'], ['--from-env', 'apiKey=UNSET'], /The variable UNSET in --from-env is not set/],
  [['model', 'openai'], ['--secret', 'sk-secret'], /unknown option '--secret'/],
  [['model', 'openai'], ['--apiKey', 'sk-secret'], /unknown option '--apiKey'/],
])('add: wrong use %s %s', async (what, flags, sentence) => {
  const { code, err } = await run(['add', ...what, '--name', 'x', ...flags], '{"apiKey": "x"}', { OTHER: 'x' })
  expect(code).toBe(2)
  expect(err).toMatch(sentence)
  expect(err).not.toContain('sk-secret')
})

test('add: an error names the field but not its value', async () => {
  const { code, err } = await run(['add', 'model', 'openai', '--name', 'x'], '{"apiKey": "hunter 2", "extra": "y"}')
  expect(code).toBe(1)
  expect(err).toMatch(
    /\(invalid_request, request [0-9a-f-]{36}-[0-9a-z]+\)\n {2}\/secret\/extra: .*\n {2}\/secret\/apiKey: /,
  )
  expect(err).not.toContain('hunter')
})

test('check: asks the provider and fails if it rejects the credential', async () => {
  const good = await run(['check', await stored('good')])
  expect(good).toMatchObject({ code: 0, err: '' })
  expect(good.out).toMatch(/^✓ openai accepted the credential\. \(\d+ ms\)\n$/)

  const bad = await run(['check', await stored('bad', BAD)])
  expect(bad).toMatchObject({ code: 1, err: '' })
  expect(bad.out).toMatch(/^✗ openai refused the credential \(401\)\. \(\d+ ms\)\n$/)

  const { code, out } = await run(['check', await stored('bad too', BAD), '--json'])
  expect(code).toBe(1)
  expect(schema.CredentialCheck.parse(JSON.parse(out)).ok).toBe(false)
})

test('update: changes the name, the secret or both', async () => {
  const id = await stored('old name', BAD)
  expect(await run(['update', id, '--name', 'new name'])).toEqual({
    code: 0,
    out: '',
    err: 'Updated the credential "new name".\n',
  })
  expect((await run(['check', id])).code).toBe(1)

  expect((await run(['update', id, '--secret'], JSON.stringify({ apiKey: GOOD }))).code).toBe(0)
  expect((await run(['check', id])).code).toBe(0)

  const both = await run(['update', id, '--name', 'third', '--from-env', 'apiKey=NEXT', '--json'], '', { NEXT: BAD })
  expect(schema.Credential.parse(JSON.parse(both.out)).name).toBe('third')
  expect((await run(['check', id])).code).toBe(1)
})

test('remove: deletes the credential; a second removal is not found', async () => {
  const id = await stored('short lived')
  expect(await run(['remove', id])).toEqual({ code: 0, out: '', err: `Removed the credential ${id}.\n` })
  for (const args of [
    ['remove', id],
    ['check', id],
    ['update', id, '--name', 'x'],
    ['update', id, '--secret'],
  ]) {
    const { code, err } = await run(args, '{"apiKey": "x"}')
    expect(code).toBe(1)
    expect(err).toMatch(/not found|There is no credential/)
  }
})

test('refuses to change a credential from the environment of the server', async () => {
  const { out } = await run(['list', '--json'])
  const { credentials } = schema.listCredentials.answers[200].parse(JSON.parse(out))
  const builtin = credentials.find(({ source }) => source === 'builtin')
  const { code, err } = await run(['remove', builtin?.id ?? 'none'])
  expect(code).toBe(1)
  expect(err).toContain('(credential_read_only, request ')
})

test.skipIf(!hasTerminal)('prompts for the secret on a terminal without showing it', async () => {
  const args = ['credentials', 'add', 'model', 'openai', '--name', 'typed']
  let asked = false
  const { code, out } = await onTerminal(args, environment(), (shown) => {
    if (asked || !shown.includes('apiKey')) return undefined
    asked = true
    return `${GOOD}\r`
  })
  expect(code, out).toBe(0)
  expect(out).not.toContain(GOOD)
  const id = /[0-9a-f-]{36}/.exec(out)?.[0] ?? 'none'
  expect((await run(['check', id])).code).toBe(0)
})

test.skipIf(!hasTerminal)('Ctrl-C at a prompt exits with 130 and without an error message', async () => {
  const args = ['credentials', 'add', 'model', 'openai', '--name', 'never stored']
  let asked = false
  const { code, out } = await onTerminal(args, environment(), (shown) => {
    if (asked || !shown.includes('apiKey')) return undefined
    asked = true
    return '\u0003'
  })
  expect(code, out).toBe(130)
  expect(out).not.toMatch(/error|Error/)
  expect((await run(['list'])).out).not.toContain('never stored')
})

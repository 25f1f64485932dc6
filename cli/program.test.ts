import { expect, test } from 'vitest'
import about from '../package.json' with { type: 'json' }
import { isKey, newKey } from '../src/workspaces/key.ts'
import { assay, localServer } from '../test/support/assay-command.ts'

const COMMANDS = [
  'serve',
  'api',
  'work',
  'migrate',
  'doctor',
  'orgs create',
  'orgs show',
  'keys list',
  'keys create',
  'keys revoke',
  'keys generate',
  'keys recover',
  'credentials providers',
  'credentials list',
  'credentials add',
  'credentials update',
  'credentials remove',
  'credentials check',
  'credentials rotate-master-key',
  'audit',
  'audit verify',
  'completion',
]

test('the help lists every command and the exit codes', async () => {
  const { code, out, err } = await assay(['--help'])
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toContain(about.description.slice(0, 40))
  expect(out).toContain(
    'Exit codes: 0 done, 1 failed or an expectation was not met, 2 wrong use, 3 the infrastructure failed',
  )
  for (const name of new Set(COMMANDS.map((command) => command.split(' ')[0]))) expect(out).toMatch(`\n  ${name} `)
})

test.each(COMMANDS)('the help of assay %s has an example', async (command) => {
  const { code, out } = await assay([...command.split(' '), '--help'])
  expect(code).toBe(0)
  expect(out).toMatch(new RegExp(`^Usage: assay ${command} `))
  expect(out).toMatch(/\nExamples?:\n {2}\$ .*assay /)
})

test('the version is the one of the package', async () => {
  expect(await assay(['--version'])).toEqual({ code: 0, out: `${about.version}\n`, err: '' })
})

const UUID = '01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11'

test.each([
  [[], /^Usage: assay/],
  [['keys'], /^Usage: assay keys/],
  [['nonsense'], /unknown command/],
  [['keys', 'list', '--nonsense'], /unknown option/],
  [['keys', 'revoke'], /missing required argument/],
  [['keys', 'create', 'ci'], /required option '--permission/],
  [['keys', 'create', 'ci', '--permission', 'root'], /Allowed choices are read, write, admin/],
  [
    ['keys', 'create', 'ci', '--permission', 'read', '--expires', 'soon'],
    /--expires must be a duration such as 12h, 30d/,
  ],
  [['keys', 'revoke', 'ci'], /Not an id\. List them with `assay keys list`/],
  [['audit', '--limit', '0'], /--limit must be a number/],
  [['orgs', 'create', 'acme', '--kind', 'club'], /Allowed choices are org, user/],
  [['orgs', 'create', 'acme'], /Set ASSAY_OPERATOR_KEY/],
  [['credentials', 'add', 'models', 'openai', '--name', 'x'], /Allowed choices are model, sandbox/],
  [['credentials', 'add', 'model', 'openai'], /required option '--name/],
  [['credentials', 'update', UUID], /Use --name, --secret or both/],
  [['keys', 'list', '--url', 'ftp://x'], /--url must be an http or https URL/],
  [['keys', 'list', '--key', 'x'], /unknown option '--key'/],
])('wrong usage prints a message and exits with 2: assay %s', async (args, sentence) => {
  const { code, out, err } = await assay(args, { env: { ASSAY_KEY: newKey() } })
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toMatch(sentence)
})

test.each([
  [{}, /^error: Set ASSAY_KEY\. /],
  [{ ASSAY_KEY: 'line\nbreak' }, /^error: ASSAY_KEY contains invalid characters\.\n$/],
  [{ ASSAY_KEY: newKey(), ASSAY_URL: 'nonsense' }, /^error: ASSAY_URL must be an http or https URL\.\n$/],
])('wrong variables are wrong use: %o', async (env: Record<string, string>, sentence) => {
  const { code, out, err } = await assay(['keys', 'list'], { env })
  expect({ code, out }).toEqual({ code: 2, out: '' })
  expect(err).toMatch(sentence)
  if (env.ASSAY_KEY) expect(err).not.toContain(env.ASSAY_KEY)
})

test.each([['orgs', 'show'], ['keys', 'list'], ['credentials', 'list'], ['audit']])(
  'assay %s %s reports that no service is running',
  async (...args) => {
    const url = 'http://127.0.0.1:1'
    const { code, out, err } = await assay(args, { env: { ASSAY_KEY: newKey(), ASSAY_URL: url } })
    expect({ code, out }).toEqual({ code: 3, out: '' })
    expect(err).toBe(`error: No response from ${url}. Is the service running there?\n`)
  },
)

test.each([200, 502])('another program at the address that answers %s is recognised', async (status) => {
  await using server = await localServer((_, response) => response.writeHead(status).end('<html>'))
  const ran = await assay(['keys', 'list', '--url', server.url], { env: { ASSAY_KEY: newKey() } })
  expect(ran.code).toBe(3)
  expect(ran.err).toMatch(
    /^error: .*(responded with 502, but it does not seem to be Assay|Another program than Assay answered).*\n$/,
  )
})

test('with --json errors are JSON too, with the exit code and the problem', async () => {
  const wrong = await assay(['keys', 'list', '--json', '--nonsense'])
  expect({ code: wrong.code, out: wrong.out }).toEqual({ code: 2, out: '' })
  expect(JSON.parse(wrong.err)).toMatchObject({
    error: { code: 'wrong_use', exitCode: 2, message: expect.stringContaining('--nonsense') },
  })
  const dead = await assay(['keys', 'list', '--json'], {
    env: { ASSAY_KEY: newKey(), ASSAY_URL: 'http://127.0.0.1:1' },
  })
  expect(JSON.parse(dead.err)).toMatchObject({ error: { code: 'infrastructure', exitCode: 3 } })
  const problem = { code: 'not_found', status: 404, title: 'Not found', detail: 'No\u001b[2J.', requestId: 'r' }
  await using server = await localServer((_, response) =>
    response.writeHead(404, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem)),
  )
  const refused = await assay(['keys', 'list', '--json', '--url', server.url], { env: { ASSAY_KEY: newKey() } })
  expect(refused.code).toBe(1)
  expect(refused.err).not.toContain('\u001b')
  expect(JSON.parse(refused.err)).toMatchObject({ error: { code: 'not_found', exitCode: 1, problem } })
})

test('prints colours only on terminals or on request', async () => {
  const plain = await assay(['keys', 'list'])
  const forced = await assay(['keys', 'list'], { env: { FORCE_COLOR: '1' } })
  expect(plain.err).not.toContain('\u001b[')
  expect(forced.err).toContain('\u001b[31merror:')
})

test('generated keys are well formed and new each time', async () => {
  const [first, second] = await Promise.all([assay(['keys', 'generate']), assay(['keys', 'generate'])])
  expect(isKey(first.out.trim())).toBe(true)
  expect(second.out).not.toBe(first.out)
  expect(first).toMatchObject({ code: 0, err: '' })
})

import { createServer } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../test/support/app.ts'
import { assay } from '../test/support/assay-command.ts'
import { createScriptedEngine, openComparisonLab } from '../test/support/comparisons.ts'

const HOSTILE = '\u001b]0;owned\u0007\u001b[2J\u009b31m\r\nassay ready http://evil.example\u202e\u2028\u0085end'
const COMMANDS = /[^\P{Cc}\n]|[\p{Zl}\p{Zp}\p{Bidi_Control}]/u

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const run = (url: string, ...args: string[]) => assay(args, { env: { ASSAY_URL: url, ASSAY_KEY: app.adminKey } })

/** What was printed commands no terminal, and no text of a stranger begins a line. */
function expectHarmless({ out, err }: { out: string; err: string }): void {
  expect(out + err).toContain('end')
  expect(out + err).not.toMatch(COMMANDS)
  expect(out + err).not.toMatch(/^assay ready/m)
}

test('a trial error cannot send control sequences to the terminal', async () => {
  const lab = await openComparisonLab(
    app,
    createScriptedEngine(() => ({
      state: 'errored',
      class: 'operator_error',
      reward: null,
      rewards: {},
      error: HOSTILE.replaceAll('\0', ''),
    })),
  )
  const { body } = await lab.create()
  await lab.work()
  const where = ['assay/quick']
  const listed = await run(app.url, 'comparisons', 'trials', ...where, body.id, '--state', 'errored')
  expect(listed.code, listed.err).toBe(0)
  expect(listed.out).not.toMatch(COMMANDS)
  expect(listed.out).not.toMatch(/^assay ready/m)
  const json = await run(app.url, 'comparisons', 'trials', ...where, body.id, '--json')
  expectHarmless(json)
  const [trial] = JSON.parse(json.out).trials
  expect(trial.error).toContain('\u202e')
})

test.each([
  ['a list', ['repos', 'list'], 200],
  ['facts', ['repos', 'show', 'lab/demo'], 200],
  ['a note', ['repos', 'connect', 'lab/demo'], 200],
  ['the detail of a problem', ['repos', 'show', 'lab/demo'], 404],
  ['several errors of a problem', ['repos', 'connect', 'lab/demo'], 422],
  ['the output as JSON', ['repos', 'list', '--json'], 200],
])('%s of a hostile server does not command the terminal', async (_, args, status) => {
  const repository = {
    // Read from the answer to the first request, for the key.
    org: 'lab',
    id: 1,
    owner: 'lab',
    name: 'demo',
    fullName: HOSTILE,
    credentialId: null,
    visibility: 'public',
    source: { kind: 'git', url: HOSTILE },
    connectedAt: '2026-01-01T00:00:00.000Z',
  }
  const error = { pointer: `/${HOSTILE}`, code: 'invalid_value', message: HOSTILE }
  const problem = {
    type: 'x',
    title: HOSTILE,
    status,
    detail: HOSTILE,
    code: 'not_found',
    requestId: HOSTILE,
    retryable: false,
    errors: status === 422 ? [error, error] : undefined,
  }
  const server = createServer(({ url = '' }, response) => {
    const list = url.split('?')[0]?.endsWith('/repos') ? { repos: [repository], nextCursor: null } : repository
    response.writeHead(status, { 'content-type': status === 200 ? 'application/json' : 'application/problem+json' })
    response.end(JSON.stringify(status === 200 ? list : problem))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const ran = await run(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`, ...args)
  server.close()
  expectHarmless(ran)
})

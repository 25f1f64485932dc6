import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { json, text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { type TestApp, testApp } from '../support/app.ts'
import { BIN, bareEnvironment } from '../support/assay-command.ts'
import { createScriptedEngine, openComparisonLab } from '../support/comparisons.ts'
import { workInBackground } from '../support/worker.ts'

const SCRIPT = new URL('../../ci/compare.mjs', import.meta.url).pathname

type Author = { id: number; type?: string }
type Comment = { id: number; body: string; user?: Author; author?: Author }

/** Who the token belongs to. Tokens of GitHub Actions cannot ask. */
let tokenUser: Author | undefined = { id: 1 }

/** Comments of one pull request, as GitHub and GitLab keep them. */
const comments: Comment[] = []
const requests: string[] = []
const host = createServer(async (request, response) => {
  const path = request.url?.split('?')[0] ?? ''
  requests.push(`${request.method} ${path}`)
  const isAllowed =
    request.headers.authorization === 'Bearer host-token' || request.headers['private-token'] === 'host-token'
  if (!isAllowed) return void response.writeHead(401).end('{}')
  if (path === '/user') return void response.writeHead(tokenUser ? 200 : 403).end(JSON.stringify(tokenUser ?? {}))
  if (request.method === 'GET') return void response.end(JSON.stringify(comments))
  const { body } = (await json(request)) as { body: string }
  writeComment(path, body)
  response.end('{}')
})

function writeComment(path: string, body: string): void {
  const earlier = comments.find(({ id }) => path.endsWith(`/${id}`))
  const by = tokenUser ?? { id: 2, type: 'Bot' }
  if (earlier) earlier.body = body
  else comments.push({ id: 100 + comments.length, body, [path.endsWith('/notes') ? 'author' : 'user']: by })
}

let app: TestApp
let worker: AsyncDisposable
let hostUrl = ''
const folder = mkdtempSync(join(tmpdir(), 'assay-ci-test-'))

beforeAll(async () => {
  app = await testApp()
  const lab = await openComparisonLab(app, createScriptedEngine())
  worker = workInBackground(() => lab.work())
  await new Promise<void>((resolve) => host.listen(0, '127.0.0.1', resolve))
  const address = host.address()
  hostUrl = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`
  git('init', '--quiet', '--initial-branch=main')
  commit('README.md', 'demo\n')
})
afterAll(async () => {
  await worker[Symbol.asyncDispose]()
  host.close()
  await app[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

function git(...args: string[]): string {
  const who = ['-c', 'user.name=test', '-c', 'user.email=test@example.org']
  const { status, stdout, stderr } = spawnSync('git', [...who, ...args], { cwd: folder, encoding: 'utf8' })
  expect(status, stderr).toBe(0)
  return stdout.trim()
}

function commit(path: string, content: string): string {
  writeFileSync(join(folder, path), content)
  git('add', path)
  git('commit', '--quiet', '--message', `Change ${path}`)
  return git('rev-parse', 'HEAD')
}

async function run(settings: Record<string, string>) {
  const child = spawn(process.execPath, [SCRIPT], {
    cwd: folder,
    env: {
      ...bareEnvironment,
      ASSAY_URL: app.url,
      ASSAY_KEY: app.adminKey,
      ASSAY_CI_COMMAND: `${process.execPath} ${BIN}`,
      ASSAY_CI_TARGET: 'assay/quick',
      ASSAY_CI_SANDBOX: 'local',
      ASSAY_CI_MODELS: 'reference=oracle',
      ASSAY_CI_API: hostUrl,
      ASSAY_CI_PROJECT: 'lab/demo',
      ASSAY_CI_REQUEST: '7',
      ASSAY_CI_TOKEN: 'host-token',
      ...settings,
    },
  })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { out, err, code }
}

test('comments once on a pull request and replaces the comment in the next run', async () => {
  const first = await run({ ASSAY_CI_LIMIT: '2', ASSAY_CI_FAIL_UNDER: '80' })
  expect(first.code, first.err).toBe(0)
  expect(comments).toHaveLength(1)
  expect(comments[0]?.body).toMatch(/^<!-- assay assay\/quick -->\n### Assay: assay\/quick\n/)
  expect(comments[0]?.body).toContain('| `reference\\|oracle\\|none` | 2/2 | 100.0 % |')
  expect(comments[0]?.body).toContain('Every setting reaches 80 %.')
  expect(requests.at(-1)).toBe('POST /repos/lab/demo/issues/7/comments')

  const full = await run({ ASSAY_CI_MODE: 'full' })
  expect(full.code, full.err).toBe(0)
  expect(comments).toHaveLength(1)
  expect(comments[0]?.body).toContain('| 5/5 |')
  expect(requests.at(-1)).toBe('PATCH /repos/lab/demo/issues/comments/100')
})

test.each([
  ['a user', { id: 1 }],
  ['GitHub Actions', undefined],
])(
  'with a token of %s it does not replace a comment that somebody else wrote with the same marker',
  async (_, user) => {
    tokenUser = user
    const forged = { id: 7, body: '<!-- assay assay/quick -->\nforged', user: { id: 9, type: 'User' } }
    comments.splice(0, comments.length, forged)
    for (const _run of [1, 2]) expect(await run({ ASSAY_CI_LIMIT: '1' })).toMatchObject({ code: 0 })
    expect(comments.map(({ id }) => id)).toEqual([7, 101])
    expect(comments[0]?.body).toContain('forged')
    tokenUser = { id: 1 }
  },
)

test('fails under the threshold, and says so in a note on a GitLab merge request', async () => {
  comments.length = 0
  const failed = await run({ ASSAY_CI_MODELS: 'reference=nop', ASSAY_CI_FAIL_UNDER: '50', ASSAY_CI_HOST: 'gitlab' })
  expect(failed.code, failed.err).toBe(1)
  expect(comments[0]?.body).toContain('**Failed**: a setting is below 50 %')
  expect(requests.at(-1)).toBe('POST /projects/lab%2Fdemo/merge_requests/7/notes')
})

test('compares the agent files of the base with those of the pull request, if it changes them', async () => {
  comments.length = 0
  const base = git('rev-parse', 'HEAD')
  const { out: unchanged } = await run({ ASSAY_CI_BASE: base, ASSAY_CI_LIMIT: '1' })
  expect(unchanged).toContain('`reference\\|oracle\\|none`')
  commit('AGENTS.md', 'Use tabs.\n')
  const changed = await run({ ASSAY_CI_BASE: base, ASSAY_CI_LIMIT: '1' })
  expect(changed.code, changed.err).toBe(0)
  expect(changed.err).toContain('Created configuration agents-head@1.')
})

test('without a pull request it only prints, and a wrong token is reported', async () => {
  comments.length = 0
  const scheduled = await run({ ASSAY_CI_REQUEST: '', ASSAY_CI_LIMIT: '1' })
  expect([scheduled.code, comments]).toEqual([0, []])
  const refused = await run({ ASSAY_CI_TOKEN: 'wrong', ASSAY_CI_LIMIT: '1' })
  expect(refused.code).toBe(1)
  expect(refused.err).toContain('Check the permissions of the token.')
})

test('the action and the component set every variable that the script reads', () => {
  const read = (path: string) => readFileSync(new URL(`../../ci/${path}`, import.meta.url), 'utf8')
  const variables = new Set(read('compare.mjs').match(/ASSAY_CI_\w+/g))
  // For tests only.
  variables.delete('ASSAY_CI_COMMAND')
  for (const path of ['github/action.yml', 'gitlab/templates/compare.yml']) {
    const file = read(path)
    for (const document of parseAllDocuments(file)) expect(document.errors).toEqual([])
    expect([...variables].filter((name) => !file.includes(name))).toEqual([])
    // An input inside a command line could inject commands.
    expect(file.split('\n').filter((line) => /^\s*(- run:|run:|- )/.test(line) && /\$\{\{|\$\[\[/.test(line))).toEqual(
      [],
    )
  }
})

// Runs a comparison in a build, and keeps one comment with the answer on the pull or merge request.
// Plain Node without dependencies, because builds run it as it is. Settings come from the environment; see docs/ci.md.
import { spawn, spawnSync } from 'node:child_process'
import { appendFileSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

const { env } = process
const SMOKE_TASKS = '5'

/** Files that configure coding agents. A pull request that changes one is compared with its base. */
const AGENT_FILES = [
  ...[':(glob)AGENTS.md', ':(glob)CLAUDE.md', ':(glob)GEMINI.md', ':(glob).mcp.json'],
  ...[':(glob).claude/**', ':(glob).agents/**', ':(glob)skills/**', ':(glob).github/copilot-instructions.md'],
]

async function compare() {
  const args = [...targetArguments(), ...modelArguments(), ...sizeArguments(), ...configurationArguments()]
  const [program = 'assay', ...rest] = (env.ASSAY_CI_COMMAND || 'assay').split(' ')
  const child = spawn(program, [...rest, 'compare', ...args, '--format', 'markdown', '--yes'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  for await (const chunk of child.stdout.setEncoding('utf8')) text += chunk
  const code = child.exitCode ?? (await new Promise((resolve) => child.once('exit', resolve)))
  process.stdout.write(text)
  return { code: code ?? 1, text: `${text.trim() || 'There is no result.'}\n\n${describeEnd(code)}` }
}

function describeEnd(code) {
  const limit = env.ASSAY_CI_FAIL_UNDER
  if (code === 0) return limit ? `Every setting reaches ${limit} %.` : 'The comparison is complete.'
  if (code === 1 && limit)
    return `**Failed**: a setting is below ${limit} %, or the request was refused. The log has the reason.`
  if (code === 3)
    return '**No complete result**: the service, a sandbox or a provider failed. A repetition may succeed.'
  return '**Failed**. The log has the reason.'
}

/** A benchmark as org/name, or `repo:owner/name` for the approved tasks of a repository. */
function targetArguments() {
  const target = env.ASSAY_CI_TARGET ?? ''
  if (target === '') throw new Error('Set the target: a benchmark as org/name, or repo:owner/name.')
  return target.startsWith('repo:') ? ['--repo', target.slice('repo:'.length)] : [target]
}

const modelArguments = () => listWords(env.ASSAY_CI_MODELS).flatMap((model) => ['--model', model])

/** `smoke`: the first tasks, once. `full`: all tasks, as often as `attempts` says. */
function sizeArguments() {
  const isSmoke = (env.ASSAY_CI_MODE || 'smoke') === 'smoke'
  return [
    ...(isSmoke
      ? ['--limit', env.ASSAY_CI_LIMIT || SMOKE_TASKS, '--skip-completed']
      : ['--attempts', env.ASSAY_CI_ATTEMPTS || '1']),
    ...option('--sandbox', env.ASSAY_CI_SANDBOX),
    ...option('--budget', env.ASSAY_CI_BUDGET),
    ...option('--fail-under', env.ASSAY_CI_FAIL_UNDER),
  ]
}

const option = (name, value) => (value ? [name, value] : [])
const listWords = (text) => (text ?? '').split(/\s+/).filter((word) => word !== '')

/** Compares the agent files of the base with those of the pull request, if it changes any. */
function configurationArguments() {
  const base = env.ASSAY_CI_BASE
  if (!base) return []
  const changed = git('diff', '--name-only', '-z', `${base}...HEAD`, '--', ...AGENT_FILES)
  if (changed === '') return []
  const folder = mkdtempSync(join(tmpdir(), 'assay-ci-'))
  return ['base', 'head'].flatMap((side) => {
    const path = writeAgentFiles(join(folder, `agents-${side}`), side === 'base' ? base : 'HEAD')
    return ['--configuration', path ?? 'none']
  })
}

/** Writes the agent files of a commit. Returns undefined if it has none. */
function writeAgentFiles(folder, commit) {
  const paths = git('ls-tree', '-r', '-z', '--name-only', commit).split('\0').filter(isAgentFile)
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), git('show', `${commit}:${path}`))
  }
  return paths.length > 0 ? folder : undefined
}

const isAgentFile = (path) =>
  /^(AGENTS\.md|CLAUDE\.md|GEMINI\.md|\.mcp\.json|\.github\/copilot-instructions\.md|(\.claude|\.agents|skills)\/.+)$/.test(
    path,
  )

function git(...args) {
  const { status, stdout, stderr } = spawnSync('git', args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  if (status !== 0)
    throw new Error(`git ${args[0]} failed: ${stderr.trim()}. Check out the full history (fetch-depth: 0).`)
  return stdout
}

/** Creates the comment, or replaces the earlier one with the same marker. */
async function comment(text) {
  const host = findHost()
  if (!host) return
  const marker = `<!-- assay ${env.ASSAY_CI_TARGET} -->`
  const body = `${marker}\n### Assay: ${env.ASSAY_CI_TARGET}\n\n${text}`
  const earlier = await findComment(host, marker)
  const [method, path] = earlier === undefined ? ['POST', host.list] : [host.replaceWith, host.one(earlier)]
  await request(host, method, path, { body })
}

function findHost() {
  const { ASSAY_CI_TOKEN: token, ASSAY_CI_API: api, ASSAY_CI_PROJECT: project, ASSAY_CI_REQUEST: number } = env
  if (!token || !api || !project || !number) return undefined
  if (env.ASSAY_CI_HOST === 'gitlab') {
    const list = `${api}/projects/${encodeURIComponent(project)}/merge_requests/${number}/notes`
    const headers = { 'private-token': token }
    return { list, one: (id) => `${list}/${id}`, replaceWith: 'PUT', headers, user: `${api}/user` }
  }
  const issues = `${api}/repos/${project}/issues`
  const headers = { authorization: `Bearer ${token}`, accept: 'application/vnd.github+json' }
  return {
    list: `${issues}/${number}/comments`,
    one: (id) => `${issues}/comments/${id}`,
    replaceWith: 'PATCH',
    headers,
    user: `${api}/user`,
  }
}

const PAGE = 100
const PAGES_MAX = 30

/** Anybody can write a comment with the marker, so only those of the token's own user are replaced. */
async function findComment(host, marker) {
  const isOwn = await createAuthorTest(host)
  for (let page = 1; page <= PAGES_MAX; page += 1) {
    const found = await request(host, 'GET', `${host.list}?per_page=${PAGE}&page=${page}`)
    const earlier = found.find(({ body, user, author }) => body.startsWith(marker) && isOwn(user ?? author ?? {}))
    if (earlier) return earlier.id
    if (found.length < PAGE) return undefined
  }
  return undefined
}

/** Tokens of GitHub Actions and of apps cannot read their user, which is a bot. */
async function createAuthorTest({ headers, user }) {
  const response = await fetch(user, { headers: { ...headers, 'user-agent': 'assay' } })
  if (!response.ok) return ({ type }) => type === 'Bot'
  const { id } = await response.json()
  return (author) => author.id === id
}

async function request({ headers }, method, url, body) {
  const response = await fetch(url, {
    method,
    headers: { ...headers, 'user-agent': 'assay', ...(body ? { 'content-type': 'application/json' } : {}) },
    body: body ? JSON.stringify(body) : undefined,
  })
  if (!response.ok)
    throw new Error(
      `The comment could not be written: ${method} ${new URL(url).pathname} responded with ${response.status}. Check the permissions of the token.`,
    )
  return response.json()
}

const report = await compare()
if (env.GITHUB_STEP_SUMMARY) appendFileSync(env.GITHUB_STEP_SUMMARY, `${report.text}\n`)
await comment(report.text)
process.exitCode = report.code

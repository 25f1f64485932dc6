import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type CodeHostServer, startCodeHost } from '../../../test/support/code-host.ts'
import type { HostedPullRequest } from '../../../test/support/github-pull-requests.ts'
import { git, type HistoryCommit, writeHistory } from '../../../test/support/histories.ts'
import { startServer } from '../../../test/support/loopback-servers.ts'
import { createOutbound } from '../../platform/outbound/outbound.ts'
import { CodeHostUnavailable } from '../github.ts'
import { openClone } from '../mirror/local-clone.ts'
import { listGitHistory } from './git-history.ts'
import { createGithubPullRequests } from './github.ts'
import type { PullRequest, PullRequests } from './pull-request.ts'

const signal = new AbortController().signal
const file = (n: number) => ({ [`src/${n}.py`]: `x = ${n}\n` })

/** In the order in which they landed. */
const HISTORY: HistoryCommit[] = [
  { message: 'start', files: file(0) },
  { message: 'Merge pull request #1 from ada/one\n\nThe first', isMerge: true, pull: 1, files: file(1) },
  { message: 'pushed without a pull request', files: file(2) },
  { message: 'The second (#2)', pull: 2, files: file(3) },
  { message: 'The third', isRebased: true, pull: 3, files: file(4) },
  { message: 'The fourth (#4)', isMerge: true, pull: 4, files: file(5) },
  { message: 'Revert "The second (#2)" (#5)', pull: 5, files: file(6) },
]
const EXPECTED = [
  { number: 5, title: 'Revert "The second (#2)"', isReverted: false },
  { number: 4, title: 'The fourth', isReverted: false },
  { number: 3, title: 'The third', isReverted: false },
  { number: 2, title: 'The second', isReverted: true },
  { number: 1, title: 'The first', isReverted: false },
]

/** What the third closes, as its code host has it. One of them lies elsewhere, where others may not look. */
const ISSUES = [
  { title: 'It is slow', body: 'Two minutes for <b>ten</b> files.' },
  { title: 'From a private place', body: 'Not for everybody.', of: 'another' },
  { title: 'Nothing said', body: null },
]

let root: string
let repository: string
let server: CodeHostServer
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-pulls-'))
  repository = join(root, 'repository')
  await writeHistory(repository, HISTORY)
  server = await startCodeHost()
  server.setPullRequests(server.add('acme/demo'), await asHosted())
})
beforeEach(() => {
  server.pages.length = 0
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await rm(root, { recursive: true, force: true })
})

/** The same history as the code host knows it. */
async function asHosted(): Promise<HostedPullRequest[]> {
  const log = await git(repository, ['log', '--first-parent', '--format=%H|%P|%ct|%s', 'main'])
  const landed = log.split('\n').map((line) => line.split('|'))
  return EXPECTED.map(({ number, title }) => {
    const at = HISTORY.length - 1 - HISTORY.findIndex(({ pull }) => pull === number)
    const [oid = '', parents = '', time, messageHeadline = ''] = landed[at] ?? []
    const mergeCommit = { oid, messageHeadline, parents: parents.split(' ') }
    const issues = number === 3 ? ISSUES : []
    return { number, title, mergedAt: new Date(Number(time) * 1000), mergeCommit, lastHeadline: title, issues }
  })
}

type Opening = { name?: string; token?: string; pause?: (ms: number) => Promise<void> }

const open = (options: Opening = {}): PullRequests =>
  createGithubPullRequests(
    { outbound: createOutbound(), baseUrl: server.url, pause: options.pause ?? (async () => {}) },
    { owner: 'acme', name: options.name ?? 'demo' },
    { host: 'github.com', token: options.token },
  )

async function listed(pullRequests: PullRequests): Promise<PullRequest[]> {
  return Array.fromAsync(pullRequests.list(signal))
}

type LinkedIssues = Pick<PullRequest, 'issues' | 'issueTexts'>

const sources: [string, LinkedIssues, () => Promise<PullRequests & AsyncDisposable>][] = [
  [
    'plain git',
    { issues: undefined, issueTexts: [] },
    async () => {
      const clone = await openClone(repository, { signal })
      return { ...listGitHistory(clone), [Symbol.asyncDispose]: () => clone[Symbol.asyncDispose]() }
    },
  ],
  [
    'github',
    {
      issues: 3,
      issueTexts: [
        { title: 'It is slow', body: 'Two minutes for <b>ten</b> files.' },
        { title: 'Nothing said', body: '' },
      ],
    },
    async () => ({ ...open(), [Symbol.asyncDispose]: async () => {} }),
  ],
]

describe.each(sources)('%s', (_, closes, openSource) => {
  test('lists every pull request once, newest first, with reverts', async () => {
    await using source = await openSource()
    const found = await listed(source)
    expect(found.map(({ number, title, isReverted }) => ({ number, title, isReverted }))).toEqual(EXPECTED)
  })

  test('returns head and base commit of each pull request', async () => {
    await using source = await openSource()
    for (const { number, head, base, mergedAt } of await listed(source)) {
      const changed = await git(repository, ['diff', '--name-only', base, head])
      expect({ number, changed }).toEqual({
        number,
        changed: Object.keys(HISTORY.find(({ pull }) => pull === number)?.files ?? {})[0],
      })
      expect(mergedAt.getTime() / 1000).toBe(Number(await git(repository, ['log', '-1', '--format=%ct', head])))
    }
  })

  test('returns issue texts of the same repository if a code host knows them', async () => {
    await using source = await openSource()
    const third = (await listed(source)).find(({ number }) => number === 3)
    expect({ issues: third?.issues, issueTexts: third?.issueTexts }).toEqual(closes)
  })

  test('supports stopping the iteration early', async () => {
    await using source = await openSource()
    for await (const { number } of source.list(signal)) {
      expect(number).toBe(5)
      break
    }
  })
})

test('omits texts that were edited after the solution was known', async () => {
  const at = (day: number) => new Date(Date.UTC(2025, 0, day))
  const mergeCommit = (id: string) => ({ oid: id.repeat(40), messageHeadline: 'x', parents: ['f'.repeat(40)] })
  const times = { createdAt: at(10), mergedAt: at(20) }
  const issue = (title: string, day: number) => ({ title, body: `the words of day ${day}`, lastEditedAt: at(day) })
  server.setPullRequests(server.add('acme/edited'), [
    {
      number: 1,
      title: 'Edited while it was open',
      body: 'what it is for',
      lastEditedAt: at(15),
      ...times,
      mergeCommit: mergeCommit('a'),
      issues: [issue('Before', 9), issue('After', 11)],
    },
    {
      number: 2,
      title: 'Edited after it was merged',
      body: 'how it was done',
      lastEditedAt: at(21),
      ...times,
      mergeCommit: mergeCommit('b'),
    },
    {
      number: 3,
      title: 'Takes it back',
      body: `This reverts commit ${'a'.repeat(40)}.`,
      lastEditedAt: at(30),
      ...times,
      mergeCommit: mergeCommit('c'),
    },
  ])
  const found = await listed(open({ name: 'edited' }))
  expect(found.map(({ number, body, isReverted }) => ({ number, body, isReverted }))).toEqual([
    { number: 3, body: '', isReverted: false },
    { number: 2, body: '', isReverted: false },
    { number: 1, body: 'what it is for', isReverted: true },
  ])
  expect(found.at(-1)?.issueTexts).toEqual([
    { title: 'Before', body: 'the words of day 9' },
    { title: 'After', body: '' },
  ])
})

test('treats the commits of one rebase as one pull request', async () => {
  const folder = join(root, 'rebased')
  await writeHistory(folder, [{ message: 'start', files: file(0) }])
  const commit = async (branch: string, message: string, time: number) => {
    const tree = await git(folder, ['rev-parse', 'main^{tree}'])
    const parent = await git(folder, ['rev-parse', branch])
    const { environment } = await import('../../../test/support/histories.ts')
    const dated = { ...environment, GIT_AUTHOR_DATE: `${1_600_000_000 + time} +0000` }
    const { execFileSync } = await import('node:child_process')
    const id = execFileSync('git', ['commit-tree', tree, '-p', parent, '-m', message], { cwd: folder, env: dated })
    await git(folder, ['update-ref', `refs/heads/${branch}`, id.toString().trim()])
  }
  await git(folder, ['branch', 'work', 'main'])
  for (const n of [1, 2, 3]) await commit('work', `step ${n}`, n)
  await git(folder, ['update-ref', 'refs/pull/7/head', 'work'])
  await commit('main', 'pushed', 9)
  for (const n of [1, 2, 3]) await commit('main', `step ${n}`, n)
  await using clone = await openClone(folder, { signal, branch: 'main' })
  const [only, ...others] = await listed(listGitHistory(clone))
  expect(others).toEqual([])
  expect(only).toMatchObject({ number: 7, title: 'step 1', mark: 'rebase' })
  expect(await git(folder, ['log', '-1', '--format=%s', only?.base ?? ''])).toBe('pushed')
})

test('waits as long as the code host requests without counting a failure', async () => {
  const waits: number[] = []
  for (let n = 0; n < 6; n += 1) server.misbehave({ status: 403, headers: { 'retry-after': '7' } })
  const found = await listed(open({ pause: async (ms) => void waits.push(ms) }))
  expect(found).toHaveLength(EXPECTED.length)
  expect(waits).toEqual(Array(6).fill(7000))
})

test('reports a requested wait of hours to the caller', async () => {
  server.misbehave({ status: 429, headers: { 'retry-after': '3000' } })
  await expect(listed(open())).rejects.toMatchObject({ name: 'CodeHostUnavailable', retryAfterSeconds: 3000 })
})

test('retries a failed page with a smaller page size', async () => {
  server.misbehave({ status: 502 })
  server.misbehave({ status: 200, body: '{"data":null,"errors":[{"message":"timeout"}]}' })
  expect(await listed(open())).toHaveLength(EXPECTED.length)
  expect(server.pages).toEqual([13])
})

test('reads all pages and omits pull requests without a commit', async () => {
  const many = Array.from({ length: 120 }, (_, n): HostedPullRequest => {
    const mergeCommit = { oid: String(n % 10).repeat(40), messageHeadline: 'x', parents: ['f'.repeat(40)] }
    return { number: n + 1, title: 'x', mergedAt: new Date(0), mergeCommit: n === 50 ? null : mergeCommit }
  })
  server.setPullRequests(server.add('acme/many'), many)
  const source = createGithubPullRequests(
    ...([
      { outbound: createOutbound(), baseUrl: server.url },
      { owner: 'acme', name: 'many' },
    ] as const),
    { host: 'github.com', token: undefined },
  )
  expect(await listed(source)).toHaveLength(119)
  expect(server.pages).toEqual([50, 50, 50])
})

test.each([
  ['a token that is not taken', { status: 401 }],
  [
    'a repository that is not shown',
    { status: 200, body: '{"data":{"repository":null},"errors":[{"type":"NOT_FOUND","message":""}]}' },
  ],
  ['a redirect', { status: 302, headers: { location: 'http://127.0.0.1:9/' } }],
])('%s is unavailable', async (_, trouble) => {
  for (let n = 0; n < 4; n += 1) server.misbehave(trouble)
  await expect(listed(open())).rejects.toThrow(CodeHostUnavailable)
  while ((await fetch(`${server.url}/nothing`)).status !== 404);
})

test('retries an invalid response a few times and then reports unavailability', async () => {
  for (let n = 0; n < 4; n += 1) server.misbehave({ status: 200, body: '<html>' })
  await expect(listed(open())).rejects.toThrow('The code host sent an invalid response.')
})

test('uses the parent of the first commit as base of a rebase', async () => {
  const mergeCommit = { oid: 'a'.repeat(40), messageHeadline: 'last step', parents: ['b'.repeat(40)] }
  const common = { title: 'Steps', mergedAt: new Date(0), commits: 3, lastHeadline: 'last step' }
  server.setPullRequests(server.add('acme/steps'), [
    { ...common, number: 1, mergeCommit },
    { ...common, number: 2, mergeCommit: { ...mergeCommit, messageHeadline: 'Steps (#2)' } },
  ])
  const source = createGithubPullRequests(
    ...([
      { outbound: createOutbound(), baseUrl: server.url },
      { owner: 'acme', name: 'steps' },
    ] as const),
    { host: 'github.com', token: undefined },
  )
  expect((await listed(source)).map(({ base }) => base)).toEqual(['b'.repeat(40), `${'a'.repeat(40)}~3`])
})

test('stops reading a list that never ends', async () => {
  const pullRequests = { pageInfo: { hasNextPage: true, endCursor: 'x' }, nodes: [] }
  const page = JSON.stringify({ data: { repository: { defaultBranchRef: { name: 'main' }, pullRequests } } })
  await using endless = await startServer((_, response) => void response.end(page))
  const source = createGithubPullRequests(
    { outbound: createOutbound(), baseUrl: `http://127.0.0.1:${endless.port}`, pagesMax: 3 },
    { owner: 'acme', name: 'endless' },
    { host: 'github.com', token: undefined },
  )
  await expect(listed(source)).rejects.toThrow('did not end the list')
  expect(endless.requests).toHaveLength(3)
})

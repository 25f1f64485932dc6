import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startCodeHost } from '../../../test/support/code-host.ts'
import {
  buildHistory,
  type GenerationApp,
  openGenerationLab,
  startGenerationApp,
} from '../../../test/support/generating.ts'
import { startGitServer } from '../../../test/support/harbor/git-server.ts'
import { git, writeHistory } from '../../../test/support/histories.ts'
import { createScriptedStages } from '../../../test/support/taskgen/scripted-stages.ts'
import {
  createBatch,
  listBatchTasks,
  previewBatch,
  readBatch,
  readGenerationOptions,
  resumeBatch,
} from '../../batches/schema.ts'
import { createCredential } from '../../credentials/schema.ts'
import { readEvents } from '../../platform/http/client.ts'
import { connectRepository, listRepositories } from '../../repos/schema.ts'
import type { CandidateFacts } from './stage.ts'

let app: GenerationApp & AsyncDisposable
beforeAll(async () => {
  app = await startGenerationApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const EASY = { easy: 1, medium: 0, hard: 0 }
const NOTHING = { requested: 0, available: 0, tried: 0, shortfall: 0 }

test('a preview counts candidates per difficulty and exclusion reasons without starting a batch', async () => {
  const lab = await openGenerationLab(app, { changes: { easy: 3, medium: 1, hard: 0 } })
  const preview = (body?: object) => app.call(previewBatch, { params: lab.place, body })
  expect(await preview()).toMatchObject({
    status: 200,
    body: {
      branch: 'main',
      tip: expect.stringMatching(/^[0-9a-f]{40}$/),
      pullRequests: 5,
      shortfall: 0,
      warnings: [],
      buckets: { easy: { ...NOTHING, available: 3 }, medium: { ...NOTHING, available: 1 }, hard: NOTHING },
      rejections: [{ reason: 'docs_only', count: 1, examples: [{ number: 900, title: 'Say more' }] }],
    },
  })
  expect((await preview()).body.cost).toEqual({ candidates: 0, capUsd: 0, usualUsd: null })
  const { rows } = await app.database.pool.query('select count(*)::int as jobs from jobs where every_seconds is null')
  expect(rows[0].jobs).toBe(0)
  await lab.made({ easy: 2 })
  const candidateCounts = { easy: 3, medium: 1, hard: 2 }
  expect((await preview({ candidateCounts })).body).toMatchObject({
    shortfall: 4,
    buckets: { easy: { requested: 3, available: 1, tried: 2, shortfall: 2 }, hard: { shortfall: 2 } },
    cost: { candidates: 2, capUsd: 1.6 },
  })
  expect((await preview({ candidateCounts, again: true })).body).toMatchObject({
    shortfall: 2,
    buckets: { easy: { available: 3 } },
  })
  expect((await preview({ candidateCounts: { easy: 0, medium: 0, hard: 0 } })).status).toBe(422)
})

test('streams the progress of a preview', async () => {
  const lab = await openGenerationLab(app, { changes: { easy: 1, medium: 0, hard: 0 } })
  const path = `/api/orgs/local/repos/lab/${lab.place.name}/batches/preview`
  const headers = { authorization: `Bearer ${app.adminKey}`, accept: 'text/event-stream' }
  const response = await fetch(app.url + path, { method: 'POST', headers })
  const events: string[] = []
  for await (const { event, data } of readEvents(response.body as never))
    events.push(`${event} ${JSON.parse(data).step ?? ''}`)
  expect(events).toEqual(['progress mirror', 'progress scan', 'result '])
})

test('previews an empty repository', async () => {
  const lab = await openGenerationLab(app, { changes: [] })
  const { body } = await app.call(previewBatch, { params: lab.place })
  expect(body).toMatchObject({ tip: null, pullRequests: 0, warnings: ['The repository is empty.'] })
})

test('an unreadable repository is 422 in a preview and fails a batch, which can be resumed after a fix', async () => {
  const lab = await openGenerationLab(app, { changes: { easy: 1, medium: 0, hard: 0 } })
  const { runId } = (await lab.create({ easy: 1 })).body
  await rm(lab.url, { recursive: true })
  expect(await app.call(previewBatch, { params: lab.place })).toMatchObject({
    status: 422,
    body: { code: 'repository_unreadable' },
  })
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({
    state: 'failed',
    error: { code: 'repository_unreadable', retryable: true },
  })
  await writeHistory(lab.url, buildHistory({ easy: 1, medium: 0, hard: 0 }, 'mended'))
  expect((await lab.resume(runId)).body).not.toHaveProperty('error')
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
})

test('an unreachable host is 503 in a preview and makes a batch wait', async () => {
  const lab = await openGenerationLab(app, { changes: EASY })
  const params = { owner: 'lab', name: 'away' }
  const source = { kind: 'git', url: 'https://no-such-host.invalid/x.git' } as const
  await app.call(connectRepository, { params, body: { source } })
  expect(await app.call(previewBatch, { params })).toMatchObject({
    status: 503,
    body: { code: 'code_host_unavailable', retryable: true },
  })
  const { defaults } = await lab.options()
  const { body } = await app.call(createBatch, { params, body: { candidateCounts: EASY, generation: defaults } })
  await lab.work()
  const answer = await app.call(readBatch, { params: { ...params, runId: body.runId } })
  expect(answer.body).toMatchObject({ state: 'waiting', waiting: { reason: 'code_host' } })
})

test('the first batch connects a repository when the host is available', async () => {
  await using host = await startCodeHost()
  await using own = await startGenerationApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url })
  const lab = await openGenerationLab(own, { changes: EASY })
  host.add('lab/hosted')
  const options = (name: string) => own.call(readGenerationOptions, { params: { owner: 'lab', name } })
  const connected = async () =>
    (await own.call(listRepositories, {})).body.repos.map(({ name }: { name: string }) => name)
  // What may be named is known before, and to look at it connects nothing.
  const { status, body: offered } = await options('hosted')
  expect([status, offered, await connected()]).toEqual([200, await lab.options(), [lab.place.name]])
  expect((await options('unknown')).status).toBe(404)
  const body = { candidateCounts: EASY, generation: offered.defaults }
  const create = (name: string) => own.call(createBatch, { params: { owner: 'lab', name }, body })
  expect((await create('hosted')).status).toBe(202)
  expect(await connected()).toContain('hosted')
  expect((await create('unknown')).status).toBe(404)
  host.misbehave({ status: 503 })
  expect(await options('other')).toMatchObject({ status: 503, body: { code: 'code_host_unavailable' } })
  host.misbehave({ status: 503 })
  expect(await create('other')).toMatchObject({ status: 503, body: { code: 'code_host_unavailable' } })
})

test('a batch waits as long as a rate limit requires and then uses the pull requests of the code host', async () => {
  const root = await mkdtemp(join(tmpdir(), 'assay-hosted-'))
  const repository = join(root, 'lab', 'hosted.git')
  await writeHistory(repository, buildHistory(EASY, 'hosted'))
  await git(repository, ['config', 'uploadpack.allowFilter', 'true'])
  await git(repository, ['config', 'uploadpack.allowAnySHA1InWant', 'true'])
  await using server = await startGitServer(root)
  await using own = await startGenerationApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: server.url })
  const seen: CandidateFacts['issues'][] = []
  const stages = createScriptedStages({
    authoring: ({ candidate }) => {
      seen.push(candidate.issues)
      return undefined as never
    },
  })
  const lab = await openGenerationLab(own, { changes: EASY, stages })
  const found = { id: 7, name: 'hosted', owner: { login: 'lab' }, private: false }
  server.pages.set('/repos/lab/hosted', JSON.stringify(found))
  const token = {
    kind: 'code-host',
    provider: 'github',
    name: 'gh',
    secret: { token: `ghp_${'a1'.repeat(18)}` },
  } as const
  expect((await own.call(createCredential, { body: token })).status).toBe(201)
  server.pages.set('/graphql', (response) => void response.writeHead(403, { 'retry-after': '600' }).end('{}'))

  const params = { owner: 'lab', name: 'hosted' }
  const body = { candidateCounts: EASY, generation: (await lab.options()).defaults }
  const { runId } = (await own.call(createBatch, { params, body })).body
  const refs = '/lab/hosted.git/info/refs?service=git-upload-pack'
  server.pages.set(refs, (response) => void response.writeHead(401, { 'www-authenticate': 'Basic' }).end())
  // A token that was revoked.
  expect(await own.call(previewBatch, { params })).toMatchObject({
    status: 422,
    body: { code: 'repository_unreadable' },
  })
  server.pages.delete(refs)
  await lab.work()
  const read = async () => (await own.call(readBatch, { params: { ...params, runId } })).body
  const waiting = await read()
  expect(waiting).toMatchObject({ state: 'waiting', waiting: { reason: 'code_host' } })
  expect(Date.parse(waiting.waiting.until)).toBeGreaterThan(Date.now() + 300_000)
  const limited = await own.call(previewBatch, { params })
  expect([limited.status, limited.headers.get('retry-after')]).toEqual([503, '600'])

  const oid = await git(repository, ['rev-parse', 'main~1'])
  const parent = await git(repository, ['rev-parse', 'main~2'])
  server.pages.set('/graphql', JSON.stringify(pageOf({ oid, parent })))
  await own.call(resumeBatch, { params: { ...params, runId } })
  await lab.work()
  expect(await read()).toMatchObject({ state: 'completed', counts: { discovered: 1, ready: 1 } })
  const { tasks } = (await own.call(listBatchTasks, { params: { ...params, runId } })).body
  expect(tasks).toMatchObject([{ pullRequest: { number: 41, url: 'https://github.com/lab/hosted/pull/41' } }])
  // What nobody can store is mended, and what never ends is cut.
  expect(seen).toEqual([[{ title: 'It\ufffd hurts', body: `\ufffd${'x'.repeat(7_999)}` }]])
  await rm(root, { recursive: true })
})

/** One pull request, as GitHub tells it. */
const pageOf = ({ oid, parent }: { oid: string; parent: string }) => ({
  data: {
    rateLimit: { cost: 1, remaining: 4000, resetAt: new Date().toISOString() },
    repository: {
      defaultBranchRef: { name: 'main' },
      pullRequests: {
        pageInfo: { hasNextPage: false, endCursor: null },
        nodes: [
          {
            number: 41,
            title: 'A change',
            body: 'Why.',
            baseRefName: 'main',
            createdAt: '2023-12-24T00:00:00Z',
            lastEditedAt: null,
            mergedAt: '2024-01-01T00:00:00Z',
            author: { login: 'ada', __typename: 'User' },
            mergeCommit: { oid, messageHeadline: 'A change (#41)', parents: { nodes: [{ oid: parent }] } },
            commits: { totalCount: 1, nodes: [{ commit: { messageHeadline: 'work' } }] },
            repository: { id: 'R_1' },
            closingIssuesReferences: {
              totalCount: 2,
              nodes: [
                null,
                { title: 'It\u0000 hurts', body: `\ud800${'x'.repeat(60_000)}`, repository: { id: 'R_1' } },
              ],
            },
          },
        ],
      },
    },
  },
})

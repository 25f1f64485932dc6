import { beforeAll, expect, test } from 'vitest'
import type { TestApp } from '../../test/support/app.ts'
import type { CodeHostServer } from '../../test/support/code-host.ts'
import { openReleaseLab, openSecondReleaseLab, startReleaseApp } from '../../test/support/releases.ts'
import { serviceJobs } from '../app.ts'
import { connectRepository, removeRepository } from '../repos/schema.ts'
import {
  listPublicTasks,
  listResults,
  readBadge,
  readChart,
  readFeed,
  readHistory,
  readPublicRelease,
  readResults,
  readResultsCsv,
} from '../results/schema.ts'
import { createKey, listAudit } from '../workspaces/schema.ts'
import { readRelease } from './schema.ts'

let app: TestApp
let host: CodeHostServer
beforeAll(async () => {
  ;({ app, host } = await startReleaseApp())
})

const A = { id: 'acme/small|mini|low', cells: 'pppppp' }
type RepositoryName = { owner: string; name: string }

async function published() {
  const lab = await openReleaseLab(app)
  await lab.ran(A)
  const { body, status } = await lab.publishAll({ publishTasks: true })
  expect(status).toBe(201)
  expect(await shown(lab.place)).toEqual({ line: 200, tasks: 200 })
  return { ...lab, releaseId: body.releaseId }
}

/** Reads every public document of a repository. Lists the statuses of those that are there. */
async function listPublicDocuments(params: RepositoryName, releaseId: string) {
  const reads = [
    ...[readResults, readHistory, readResultsCsv, readBadge, readChart, listPublicTasks].map((each) =>
      app.call(each, { params, key: null }),
    ),
    app.call(readPublicRelease, { params: { ...params, releaseId }, key: null }),
  ]
  const answers = await Promise.all(reads)
  const { body: list } = await app.call(listResults, { key: null, query: { q: params.name } })
  const { text: feed } = await app.call(readFeed, { key: null })
  return {
    statuses: [...new Set(answers.map(({ status }) => status))],
    cards: list.cards.filter((card: { releaseId: string }) => card.releaseId === releaseId).length,
    inFeed: feed.includes(`${params.owner}/${params.name}`),
  }
}

/** Statuses of what everybody reads. */
const shown = async (params: RepositoryName) => ({
  line: (await app.call(readResults, { params, key: null })).status,
  tasks: (await app.call(listPublicTasks, { params, key: null })).status,
})
const GONE = { line: 404, tasks: 404 }
const remove = (params: RepositoryName, query: Record<string, string> = {}, key?: string) =>
  app.call(removeRepository, { params, query, key })
const withdrawnReason = async (params: RepositoryName) =>
  (await app.call(readHistory, { params, key: null })).body.releases[0].withdrawn?.reason

test('removing a repository with a public release requires a choice, and the release can be withdrawn later', async () => {
  const { place, releaseId, list, withdraw } = await published()
  expect(await remove(place)).toMatchObject({ status: 409, body: { code: 'releases_public', releaseId } })
  expect(await remove(place, { withdraw: 'maybe' })).toMatchObject({ status: 422 })
  expect((await remove(place, { withdraw: 'false' })).status).toBe(204)
  expect(await shown(place)).toEqual({ line: 200, tasks: 200 })

  expect(await list()).toMatchObject([{ releaseId, isHead: true, withdrawn: null }])
  expect(await app.call(readRelease, { params: { ...place, releaseId } })).toMatchObject({ status: 200 })
  const other = await app.otherWorkspace('stranger')
  const foreign = { params: { org: other.login, ...place, releaseId }, key: other.key }
  expect((await app.call(readRelease, foreign)).status).toBe(404)
  expect(await withdraw(releaseId)).toMatchObject({ status: 200, body: { withdrawn: { reason: 'It was wrong.' } } })
  expect(await shown(place)).toEqual(GONE)
})

test('removing a repository can withdraw its release, which takes an admin key', async () => {
  const { place } = await published()
  const { body: writer } = await app.call(createKey, { body: { name: 'writer', permission: 'write' } })
  expect(await remove(place, { withdraw: 'true' }, writer.key)).toMatchObject({ status: 403 })
  expect(await shown(place)).toEqual({ line: 200, tasks: 200 })
  expect((await remove(place, { withdraw: 'true' })).status).toBe(204)
  expect(await shown(place)).toEqual(GONE)
  expect(await withdrawnReason(place)).toBe('The repository was disconnected.')
  const { events } = (await app.call(listAudit)).body
  expect(events.map(({ action }: { action: string }) => action)).toContain('release.withdrawn')
})

test('setting a plain git repository to private withdraws its public release', async () => {
  const { place } = await published()
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  const set = (visibility: 'public' | 'private') =>
    app.call(connectRepository, { params: place, body: { source, visibility } })
  expect((await set('public')).status).toBe(200)
  expect(await shown(place)).toEqual({ line: 200, tasks: 200 })
  expect((await set('private')).status).toBe(200)
  expect(await shown(place)).toEqual(GONE)
})

test('setting a repository with a public release to private takes an admin key', async () => {
  const { place, withdraw, releaseId } = await published()
  const { body: writer } = await app.call(createKey, { body: { name: 'writer', permission: 'write' } })
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  const connect = (body: object = {}) =>
    app.call(connectRepository, { params: place, key: writer.key, body: { source, ...body } })
  const REFUSED = { status: 403, body: { code: 'forbidden', detail: expect.stringContaining('permission admin') } }
  expect(await connect({ visibility: 'private' })).toMatchObject(REFUSED)
  expect(await connect()).toMatchObject(REFUSED)
  expect((await remove(place, { withdraw: 'false' }, writer.key)).status).toBe(204)
  expect(await connect({ visibility: 'private' })).toMatchObject(REFUSED)
  expect(await shown(place)).toEqual({ line: 200, tasks: 200 })

  expect((await connect({ visibility: 'public' })).status).toBe(201)
  expect((await withdraw(releaseId)).status).toBe(200)
  expect((await connect({ visibility: 'private' })).status).toBe(200)
})

test('no public document of a private repository is left, older releases included', async () => {
  const lab = await published()
  const { place, releaseId } = lab
  await lab.ran({ ...A, cells: '---f--' })
  const second = await lab.publishAll()
  expect(await listPublicDocuments(place, second.body.releaseId)).toEqual({ statuses: [200], cards: 1, inFeed: true })
  expect(await listPublicDocuments(place, releaseId)).toMatchObject({ statuses: [200] })
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  const set = (visibility: 'public' | 'private') =>
    app.call(connectRepository, { params: place, body: { source, visibility } })
  expect((await set('private')).status).toBe(200)
  const gone = { statuses: [404], cards: 0, inFeed: false }
  expect(await listPublicDocuments(place, releaseId)).toEqual(gone)
  expect(await listPublicDocuments(place, second.body.releaseId)).toEqual(gone)
  expect(await lab.list()).toMatchObject([{ withdrawn: { reason: 'The repository is no longer public.' } }, {}])
})

test('the history of a repository without a public release goes when it becomes private', async () => {
  const { line, withdraw, place, repository, list } = await publishedOnHost('quiet')
  const [{ releaseId }] = await list()
  expect((await withdraw(releaseId)).status).toBe(200)
  expect(await line()).toBe(404)
  const history = async () => (await app.call(readHistory, { params: place, key: null })).status
  expect(await history()).toBe(200)
  repository.visibility = 'private'
  await check()
  expect(await history()).toBe(404)
})

/** Runs the periodic job now. */
const check = async () => {
  const job = serviceJobs(app.tools).find(({ type }) => type === 'releases.visibility')
  await job?.run({ signal: AbortSignal.timeout(10_000) } as never)
}

async function publishedOnHost(login: string) {
  const { digests } = await openReleaseLab(app)
  const repository = host.add(`${login}/widgets`)
  const place = { owner: login, name: 'widgets' }
  const lab = await openSecondReleaseLab(app, { login, place, digests }, [A])
  expect((await lab.publishAll()).status).toBe(201)
  return { ...lab, repository, place, line: async () => (await shown(place)).line }
}

test.each([
  ['connected', false],
  ['disconnected', true],
])(
  'the public release of a %s repository is withdrawn when it becomes private on its code host',
  async (login, isRemoved) => {
    const { line, list, key, place, repository } = await publishedOnHost(login)
    const params = { org: login, ...place }
    if (isRemoved) await app.call(removeRepository, { params, key, query: { withdraw: 'false' } })
    await check()
    expect(await line()).toBe(200)
    repository.visibility = 'private'
    host.misbehave({ status: 500 })
    await check()
    expect(await line()).toBe(200)
    await check()
    expect(await line()).toBe(404)
    expect((await app.call(readHistory, { params: place, key: null })).status).toBe(404)
    expect(await list()).toMatchObject([{ withdrawn: { reason: 'The repository is no longer public.' } }])
  },
)

test('publishing a repository that became private withdraws its public release', async () => {
  const lab = await publishedOnHost('turning')
  lab.repository.visibility = 'internal'
  expect(await lab.publishAll()).toMatchObject({ status: 422, body: { code: 'repository_private' } })
  expect(await lab.line()).toBe(404)
})

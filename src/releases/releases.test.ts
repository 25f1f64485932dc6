import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import type { ArchiveFiles } from '../../test/support/archives.ts'
import { type CodeHostServer, startCodeHost } from '../../test/support/code-host.ts'
import { createReleaseClient, insertComparison, openReleaseLab } from '../../test/support/releases.ts'
import { decideTask } from '../batches/schema.ts'
import { connectRepository } from '../repos/schema.ts'
import { listPublicTasks, listResults, readHistory, readPublicTaskArchive, readResults } from '../results/schema.ts'
import { createWebhook } from '../webhooks/schema.ts'
import * as schema from './schema.ts'

let app: TestApp
let host: CodeHostServer

beforeAll(async () => {
  host = await startCodeHost()
  app = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await host[Symbol.asyncDispose]()
})

const A = 'acme/small|mini|low'
const B = 'acme/large|mini|high'

/** Two settings: one is cheap, the other is better. */
async function twoSettings() {
  const lab = await openReleaseLab(app)
  await lab.ran({ id: A, cells: 'ppffff', micros: 1000 }, { id: B, cells: 'pppppf', micros: 5000 })
  return lab
}

test('a preview contains keys, head, fingerprint and the content of the release', async () => {
  const lab = await twoSettings()
  const preview = await lab.preview()
  expect(preview).toMatchObject({
    repository: { fullName: `${lab.place.owner}/${lab.place.name}`, visibility: 'public' },
    publisher: { login: 'local', kind: 'org' },
    head: null,
    tasks: 6,
    frontier: [A, B],
    blockers: [],
    changes: { added: [B, A], removed: [], moved: [] },
    disclosure: {
      settings: { run: 2, published: 2 },
      trials: { run: 12, scored: 12, errored: 0, voided: 0 },
      tasks: { approved: 6, published: 6, excluded: [] },
    },
  })
  expect(preview.fingerprint).toMatch(/^[0-9a-f]{64}$/)
  expect(preview.settings).toMatchObject([
    {
      key: B,
      id: B,
      tasks: 6,
      passed: 5,
      totalCostUsd: 0.03,
      costPerTaskUsd: 0.005,
      complete: true,
      publishable: true,
    },
    { key: A, id: A, tasks: 6, passed: 2, onFrontier: true, selected: true },
  ])
  expect(preview.settings[0].accuracy).toBeCloseTo(500 / 6, 10)
  expect(preview.pairs).toMatchObject([{ a: A, b: B, tasks: 6, wins: 0, losses: 3, ties: 3 }])
})

test('previewing a selection does not change the fingerprint', async () => {
  const lab = await twoSettings()
  const all = await lab.preview()
  const { body } = await app.call(schema.previewRelease, { params: lab.place, query: { setting: A } })
  expect(body).toMatchObject({
    fingerprint: all.fingerprint,
    frontier: [A],
    disclosure: { settings: { run: 2, published: 1 } },
  })
  expect(body.settings.map(({ selected }: { selected: boolean }) => selected)).toEqual([false, true])
  const path = `/api/orgs/local/repos/${lab.place.owner}/${lab.place.name}/releases/preview`
  const both = new URLSearchParams([
    ['setting', A],
    ['setting', B],
  ])
  const auth = { headers: { authorization: `Bearer ${app.adminKey}` } }
  expect((await app.fetch(`${path}?${both}`, auth)).body.frontier).toEqual([A, B])
  const unknown = await app.call(schema.previewRelease, { params: lab.place, query: { setting: 'no|such|one' } })
  expect(unknown).toMatchObject({ status: 422, body: { errors: [{ pointer: '/query/setting' }] } })
})

test('publishing new results answers 201, the same results 200, and they are public', async () => {
  const lab = await twoSettings()
  const first = await lab.publishAll()
  expect(first.status).toBe(201)
  const again = await lab.publishAll()
  expect(again).toMatchObject({ status: 200, body: { releaseId: first.body.releaseId } })
  expect(again.body).toEqual(first.body)
  const { head, changes } = await lab.preview()
  expect({ head, changes }).toEqual({ head: first.body.releaseId, changes: { added: [], removed: [], moved: [] } })
  const { body } = await app.call(readResults, { params: lab.place, key: null })
  const { isHead: _, withdrawn: __, url, ...release } = first.body
  expect(body).toEqual({ lines: [{ release, endorsed: false }] })
  const page = await fetch(url)
  expect([page.headers.get('content-type'), await page.text()]).toEqual([
    'text/html; charset=utf-8',
    expect.stringContaining(lab.place.name),
  ])
  await lab.ran({ id: A, cells: '---p--', micros: 1000 })
  const moved = await lab.publishAll()
  expect(moved.status).toBe(201)
  expect(moved.body.settings.find(({ id }: { id: string }) => id === A).stats.ci95.trials).toBe(7)
  expect(
    (await lab.list()).map(({ releaseId, isHead }: { releaseId: string; isHead: boolean }) => [releaseId, isHead]),
  ).toEqual([
    [moved.body.releaseId, true],
    [first.body.releaseId, false],
  ])
})

test('a lost response can be requested again with the old head', async () => {
  const lab = await twoSettings()
  const { fingerprint } = await lab.preview()
  const body = { settings: [B, A], head: null, fingerprint }
  const first = await lab.publish(body)
  const second = await lab.publish({ ...body, settings: [A, B] })
  expect([first.status, second.status]).toEqual([201, 200])
  expect(second.body.releaseId).toBe(first.body.releaseId)
})

test('a duplicate setting is rejected before any other check, and so is a duplicate webhook event', async () => {
  const lab = await twoSettings()
  const { fingerprint } = await lab.preview()
  const errors = [
    { pointer: '/settings/2', code: 'duplicate', message: 'must not repeat an earlier entry' },
    { pointer: '/settings/3', code: 'duplicate', message: 'must not repeat an earlier entry' },
  ]
  for (const over of [{ fingerprint }, { fingerprint: 'stale' }])
    expect(await lab.publish({ settings: [A, B, A, B], head: null, ...over })).toMatchObject({
      status: 422,
      body: { code: 'invalid_request', errors },
    })
  const events = ['release.published', 'release.published'] as const
  const webhook = { url: 'https://hooks.example.org/in', events: [...events] }
  expect(await app.call(createWebhook, { body: webhook })).toMatchObject({
    status: 422,
    body: { errors: [{ pointer: '/events/1', code: 'duplicate' }] },
  })
})

test('checks run in the order of the contract', async () => {
  const lab = await twoSettings()
  const { fingerprint } = await lab.preview()
  const wrong = { settings: ['no|such|one'], head: 'stale', fingerprint: 'stale' }
  const stale = await lab.publish(wrong)
  expect(stale).toMatchObject({ status: 409, body: { code: 'stale_preview', preview: { fingerprint, head: null } } })
  const oldHead = await lab.publish({ ...wrong, fingerprint })
  expect(oldHead).toMatchObject({ status: 409, body: { code: 'stale_preview', preview: { fingerprint } } })
  const unknown = await lab.publish({ ...wrong, fingerprint, head: null })
  expect(unknown).toMatchObject({
    status: 422,
    body: { code: 'settings_refused', errors: [{ pointer: '/settings/0', code: 'unknown_setting' }] },
  })
  const none = await lab.publish({ settings: [], head: null, fingerprint })
  expect(none).toMatchObject({ status: 422, body: { code: 'settings_refused', errors: [{ pointer: '/settings' }] } })
  const published = await lab.publish({ settings: [A], head: null, fingerprint })
  expect(published.status).toBe(201)
  expect((await lab.publish({ settings: [B], head: null, fingerprint })).status).toBe(409)
  expect((await lab.publish({ settings: [], head: published.body.releaseId, fingerprint })).status).toBe(422)
  expect((await lab.publish({ settings: [B], head: published.body.releaseId, fingerprint })).status).toBe(201)
  const { body } = await lab.publish({ settings: 'A', head: 1, fingerprint: null })
  expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual(['/settings', '/head', '/fingerprint'])
})

test('an unpublishable setting is rejected with its reason', async () => {
  const lab = await openReleaseLab(app)
  expect((await lab.preview()).blockers).toMatchObject([{ code: 'no_results' }])
  await lab.ran(
    { id: A, cells: 'pppppp', micros: null },
    { id: B, cells: 'eeeeee' },
    { id: 'reference|oracle|none', cells: 'pppppp', micros: 0, provider: 'none' },
  )
  const { settings, head, fingerprint } = await lab.preview()
  expect(settings.map(({ key, publishable, reason }: Record<string, unknown>) => [key, publishable, reason])).toEqual([
    [B, false, 'no_results'],
    [A, false, 'cost_unknown'],
    ['reference|oracle|none', false, 'reference'],
  ])
  const answer = await lab.publish({ settings: [A, B, 'reference|oracle|none'], head, fingerprint })
  expect(answer.status).toBe(422)
  expect(answer.body.errors.map(({ code }: { code: string }) => code)).toEqual([
    'cost_unknown',
    'no_results',
    'reference',
  ])
  expect((await app.call(readResults, { params: lab.place, key: null })).status).toBe(404)
})

test('new results make the preview stale', async () => {
  const lab = await twoSettings()
  const { head, fingerprint } = await lab.preview()
  await lab.ran({ id: 'acme/new|mini|low', cells: 'pp----' })
  const answer = await lab.publish({ settings: [A], head, fingerprint })
  expect(answer.status).toBe(409)
  expect(answer.body.preview.settings).toHaveLength(3)
  expect(answer.body.preview.fingerprint).not.toBe(fingerprint)
  const { body } = await lab.publish({ settings: [A], head, fingerprint: answer.body.preview.fingerprint })
  expect(body).toMatchObject({ tasks: 6, disclosure: { settings: { run: 3, published: 1 } } })
})

test('a setting without results for some tasks is published but not on the frontier', async () => {
  const lab = await openReleaseLab(app)
  await lab.ran({ id: A, cells: 'pp----', micros: 1 }, { id: B, cells: 'pppppf', micros: 5000 })
  const { body } = await lab.publishAll()
  expect(body).toMatchObject({ tasks: 6, frontier: [B] })
  const gap = body.settings.find(({ id }: { id: string }) => id === A)
  expect(gap).toMatchObject({ tasks: 2, passed: 2, accuracy: 100, onFrontier: false })
  expect(gap.stats).toMatchObject({ frontierProbability: null, coverage: 100 / 3 })
})

test('a declined task is excluded from the next release and disclosed', async () => {
  const lab = await twoSettings()
  await lab.publishAll()
  const decline = { decision: 'declined' as const, digest: lab.digests[5] ?? '' }
  await app.call(decideTask, { ...lab.at(lab.runId, { taskId: 'six' }), body: decline })
  const { body, status } = await lab.publishAll()
  expect(status).toBe(201)
  expect(body).toMatchObject({
    tasks: 5,
    disclosure: { tasks: { approved: 5, published: 5, excluded: [{ reason: 'declined_after_results', count: 1 }] } },
  })
})

test('a private repository cannot publish, nor can one that became private', async () => {
  const lab = await twoSettings()
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  await app.call(connectRepository, { params: lab.place, body: { source, visibility: 'private' } })
  const mend = `assay repos connect ${lab.place.owner}/${lab.place.name} --public --git ${source.url}`
  const message = expect.stringContaining(mend)
  expect((await lab.preview()).blockers).toMatchObject([{ code: 'repository_private', message }])
  const { body } = await lab.publish({ settings: ['x'], head: 'stale', fingerprint: 'stale' })
  expect(body).toMatchObject({ status: 422, code: 'repository_private', detail: message })
})

describe('on a code host', () => {
  let hosted: { id: number; owner: string; name: string; visibility: 'public' | 'private' | 'internal' }
  let lab: ReturnType<typeof createReleaseClient> & { where: Parameters<typeof insertComparison>[1] }

  beforeAll(async () => {
    hosted = host.add('Octo/Cat')
    const place = { owner: 'Octo', name: 'Cat' }
    await app.call(connectRepository, { params: place, body: { source: { kind: 'github' } } })
    const { rows } = await app.database.pool.query(`select key, workspace_id from repositories where owner = 'Octo'`)
    const tasks = await openReleaseLab(app)
    await app.database.pool.query('update batches set repository = $1 where id = $2', [
      rows[0].key,
      tasks.runId.slice(6),
    ])
    const where = { ...tasks.where, ...place, repository: rows[0].key }
    lab = { ...createReleaseClient(app, place), where }
    await insertComparison(app.database.pool, where, [{ id: A, cells: 'pppfff' }])
  })

  test('every publish checks the visibility again', async () => {
    const first = await lab.publishAll()
    expect(first).toMatchObject({ status: 201, body: { repository: { id: hosted.id, fullName: 'Octo/Cat' } } })
    hosted.visibility = 'private'
    expect(await lab.publishAll()).toMatchObject({ status: 422, body: { code: 'repository_private' } })
    hosted.visibility = 'public'
    // The release was withdrawn when the repository turned private, so this is a new one.
    expect((await lab.publishAll()).status).toBe(201)
  })

  test('an unavailable, refusing or ignorant code host is reported', async () => {
    host.misbehave({ status: 503 })
    expect((await lab.publishAll()).status).toBe(503)
    host.misbehave({ status: 401 })
    expect(await lab.publishAll()).toMatchObject({ status: 422, body: { code: 'code_host_access_refused' } })
    host.misbehave({ status: 404 })
    expect(await lab.publishAll()).toMatchObject({ status: 422, body: { code: 'repository_private' } })
  })

  test('after a rename all lines are found under the new name', async () => {
    host.rename(hosted, 'Feline')
    expect(await lab.publishAll()).toMatchObject({ status: 404, body: { code: 'repository_not_found' } })
    await app.call(connectRepository, {
      params: { owner: 'Octo', name: 'Feline' },
      body: { source: { kind: 'github' } },
    })
    await insertComparison(app.database.pool, lab.where, [{ id: A, cells: '---p--' }])
    const renamed = createReleaseClient(app, { owner: 'octo', name: 'feline' })
    expect(await renamed.publishAll()).toMatchObject({ status: 201, body: { repository: { fullName: 'Octo/Feline' } } })
    expect((await app.call(readResults, { params: { owner: 'Octo', name: 'Cat' }, key: null })).status).toBe(404)
    const { body } = await app.call(readHistory, { params: { owner: 'Octo', name: 'Feline' }, key: null })
    expect(body.releases).toHaveLength(3)
  })
})

test('a withdrawn head is no longer public, no older release replaces it, and the history shows the reason', async () => {
  const lab = await twoSettings()
  const first = await lab.publishAll()
  await lab.ran({ id: A, cells: '---p--' })
  const second = await lab.publishAll()
  const { body, status } = await lab.withdraw(second.body.releaseId, 'Two tasks were broken.')
  expect(status).toBe(200)
  expect(body).toMatchObject({ isHead: false, withdrawn: { reason: 'Two tasks were broken.' } })
  expect((await app.call(readResults, { params: lab.place, key: null })).status).toBe(404)
  const { body: list } = await app.call(listResults, { key: null, query: { q: lab.place.name } })
  expect(list.cards.map(({ releaseId }: { releaseId: string }) => releaseId)).not.toContain(first.body.releaseId)
  const { body: history } = await app.call(readHistory, { params: lab.place, key: null })
  expect(
    history.releases.map(({ releaseId, withdrawn }: Record<string, { reason: string } | null>) => [
      releaseId,
      withdrawn?.reason,
    ]),
  ).toEqual([
    [second.body.releaseId, 'Two tasks were broken.'],
    [first.body.releaseId, undefined],
  ])
  expect(await lab.withdraw(second.body.releaseId)).toMatchObject({ status: 409, body: { code: 'release_withdrawn' } })
  expect((await lab.preview()).head).toBeNull()
  const third = await lab.publishAll()
  expect(third.status).toBe(201)
  expect(third.body.releaseId).not.toBe(second.body.releaseId)
})

test('withdrawing an older release does not change the line', async () => {
  const lab = await twoSettings()
  const first = await lab.publishAll()
  await lab.ran({ id: A, cells: '---p--' })
  const second = await lab.publishAll()
  expect((await lab.withdraw(first.body.releaseId)).status).toBe(200)
  const { body } = await app.call(readResults, { params: lab.place, key: null })
  expect(body.lines[0].release.releaseId).toBe(second.body.releaseId)
})

test('task files are private unless published, and then stay public', async () => {
  const lab = await twoSettings()
  await lab.publishAll()
  const tasks = async () => (await app.call(listPublicTasks, { params: lab.place, key: null })).body.tasks
  const archive = () => app.call(readPublicTaskArchive, { params: { ...lab.place, taskId: 'one' }, key: null })
  expect(await tasks()).toEqual([])
  expect((await archive()).status).toBe(404)
  expect((await lab.publishAll({ publishTasks: true })).status).toBe(200)
  expect((await tasks()).map(({ taskId }: { taskId: string }) => taskId)).toEqual([
    'five',
    'four',
    'one',
    'six',
    'three',
    'two',
  ])
  const file = await archive()
  expect(file.status).toBe(200)
  expect(file.headers.get('content-disposition')).toContain('attachment')
  expect(file.headers.get('cache-control')).toBe('public, no-cache')
  const etag = file.headers.get('etag') ?? ''
  const again = await app.call(readPublicTaskArchive, {
    ...{ params: { ...lab.place, taskId: 'one' }, key: null },
    headers: { 'if-none-match': etag },
  })
  expect(again).toMatchObject({ status: 304, text: '' })
  expect([again.headers.get('etag'), again.headers.get('cache-control')]).toEqual([etag, 'public, no-cache'])
  await lab.ran({ id: A, cells: '---p--' })
  const second = await lab.publishAll()
  expect(second.status).toBe(201)
  expect(await tasks()).toHaveLength(6)
  await lab.withdraw(second.body.releaseId)
  expect((await archive()).status).toBe(404)
  expect((await lab.publishAll()).status).toBe(201)
  expect(await tasks()).toEqual([])
})

test('a secret in task files prevents the whole publication', async () => {
  const secret = `AKIA${'QZ3M7KD5LX2W6RTV'}`
  const lab = await openReleaseLab(
    app,
    (task): ArchiveFiles => (task === 'two' ? { 'tests/notes.md': `first\n${secret}\n` } : {}),
  )
  await lab.ran({ id: A, cells: 'pppppp' })
  const answer = await lab.publishAll({ publishTasks: true })
  expect(answer).toMatchObject({
    status: 422,
    body: { code: 'secrets_found', findings: [{ task: 'two', path: 'tests/notes.md', line: 2 }] },
  })
  expect(answer.text).not.toContain(secret)
  expect((await app.call(readResults, { params: lab.place, key: null })).status).toBe(404)
  expect((await lab.publishAll()).status).toBe(201)
  expect((await lab.publishAll({ publishTasks: true })).status).toBe(422)
})

test('publishing, withdrawing and endorsing are audited', async () => {
  const lab = await twoSettings()
  const { body } = await lab.publishAll({ publishTasks: true })
  await lab.withdraw(body.releaseId)
  const { rows } = await app.database.pool.query(
    `select action from audit_events where subject = $1 order by sequence`,
    [body.releaseId],
  )
  expect(rows.map(({ action }) => action)).toEqual(['release.published', 'release.withdrawn'])
})

import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { OPERATOR_KEY, type TestApp, testApp } from '../../test/support/app.ts'
import { startCodeHost } from '../../test/support/code-host.ts'
import { openReleaseLab, openSecondReleaseLab, publishTwoSettings } from '../../test/support/releases.ts'
import { putEndorsement, verifyWorkspace } from '../releases/schema.ts'
import { listenForChanges } from './cache.ts'
import * as schema from './schema.ts'

let app: TestApp

beforeAll(async () => {
  app = await testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local', ASSAY_PUBLIC_URL: 'https://results.example' })
})
afterAll(() => app[Symbol.asyncDispose]())

const A = 'acme/small|mini|low'
const B = 'acme/large|mini|high'

async function published() {
  const lab = await publishTwoSettings(app, { publishTasks: true })
  return { ...lab, path: `/api/public/results/${lab.place.owner}/${lab.place.name}` }
}

const open = <E extends Parameters<TestApp['call']>[0]>(endpoint: E, options: object = {}) =>
  app.call(endpoint, { key: null, ...options } as never)

test('a card contains picks and frontier, and search finds it', async () => {
  const { place, release } = await published()
  const { body } = await open(schema.listResults, { query: { q: place.name.toUpperCase() } })
  const readInterval = (label: string) => {
    const { low, high } = release.settings.find((each: { model: { label: string } }) => each.model.label === label)
      .stats.ci95
    return { low, high }
  }
  const small = {
    id: A,
    model: { label: 'Small' },
    accuracy: 200 / 6,
    costPerTaskUsd: 0.001,
    ci95: readInterval('Small'),
  }
  const large = {
    id: B,
    model: { label: 'Large' },
    accuracy: 500 / 6,
    costPerTaskUsd: 0.005,
    ci95: readInterval('Large'),
  }
  expect(body.cards).toEqual([
    {
      repository: release.repository,
      publisher: { login: 'local', kind: 'org' },
      releaseId: release.releaseId,
      releasedAt: release.releasedAt,
      tasks: 6,
      settings: 2,
      picks: [
        { setting: small, roles: ['cheapest'] },
        { setting: large, roles: ['most-accurate'] },
      ],
      frontier: [small, large],
      endorsed: false,
      defaultLine: true,
    },
  ])
  expect((await open(schema.listResults, { query: { q: '%_no such' } })).body.cards).toEqual([])
})

test('the list is sorted newest first, and its pages are stable under inserts', async () => {
  await published()
  await published()
  const all = (await open(schema.listResults)).body
  expect(all.nextCursor).toBeNull()
  const times = all.cards.map(({ releasedAt }: { releasedAt: string }) => releasedAt)
  expect(times).toEqual(times.toSorted().reverse())
  const first = (await open(schema.listResults, { query: { limit: '1' } })).body
  await published()
  const second = (await open(schema.listResults, { query: { limit: '1', cursor: first.nextCursor } })).body
  expect([...first.cards, ...second.cards]).toEqual(all.cards.slice(0, 2))
})

test('every read of a name without results is 404', async () => {
  const nothing = { owner: 'lab', name: 'nothing', releaseId: '00000000-0000-4000-8000-000000000000', taskId: 'one' }
  const { place } = await published()
  for (const endpoint of [
    schema.readResults,
    schema.readHistory,
    schema.readResultsCsv,
    schema.readBadge,
    schema.readChart,
    schema.listPublicTasks,
    schema.readPublicRelease,
    schema.readPublicTaskArchive,
  ]) {
    const answer = await open(endpoint, { params: nothing })
    expect(answer.status, endpoint.id).toBe(404)
    expect(answer.headers.get('access-control-allow-origin')).toBe('*')
  }
  for (const endpoint of [
    schema.readResultsCsv,
    schema.readBadge,
    schema.readChart,
    schema.listPublicTasks,
    schema.readPublicTaskArchive,
  ]) {
    const params = { ...nothing, ...place }
    expect((await open(endpoint, { params, query: { publisher: 'nobody' } })).status, endpoint.id).toBe(404)
    expect((await open(endpoint, { params, query: { publisher: 'x'.repeat(101) } })).status, endpoint.id).toBe(422)
    expect((await open(endpoint, { params, query: { publisher: 'LOCAL' } })).status, endpoint.id).toBe(200)
  }
  expect((await open(schema.readPublicTaskArchive, { params: { ...place, taskId: 'seven' } })).status).toBe(404)
})

test('a release is readable by id even if it is no longer the head', async () => {
  const lab = await published()
  await lab.ran({ id: A, cells: '---p--' })
  await lab.publishAll()
  const params = { ...lab.place, releaseId: lab.release.releaseId }
  const { body } = await open(schema.readPublicRelease, { params })
  expect(body).toMatchObject({ releaseId: lab.release.releaseId, withdrawn: null, tasks: 6 })
  await lab.withdraw(lab.release.releaseId, 'Wrong.')
  expect((await open(schema.readPublicRelease, { params })).body.withdrawn.reason).toBe('Wrong.')
})

test('answers have strong ETags, the accepted encoding, and allow every origin', async () => {
  const { path, place } = await published()
  for (const at of [
    '/api/public/results',
    path,
    `${path}/history`,
    `${path}/chart.svg`,
    `${path}/badge.svg`,
    `${path}/results.csv`,
    `${path}/tasks`,
    '/api/public/results.atom',
  ]) {
    const plain = await app.fetch(at, { headers: { 'accept-encoding': 'identity' } })
    expect(plain.status, at).toBe(200)
    const etag = plain.headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[\w-]{27}"$/)
    expect(plain.headers.get('access-control-allow-origin')).toBe('*')
    expect(plain.headers.get('cache-control')).toBe('public, no-cache')
    expect(plain.headers.get('vary')).toBe('Accept-Encoding')
    const again = await app.fetch(at, {
      headers: { 'accept-encoding': 'identity', 'if-none-match': `"other", ${etag}` },
    })
    expect([again.status, again.text, again.headers.get('etag')]).toEqual([304, '', etag])
    const head = await app.fetch(at, { method: 'HEAD', headers: { 'accept-encoding': 'identity' } })
    expect([head.status, head.text, head.headers.get('etag')]).toEqual([200, '', etag])
  }
  const raw = async (encoding: string) => {
    const { status, headers, body } = await rawGet(`${app.url}${path}`, encoding)
    return { status, encoding: headers['content-encoding'], etag: headers.etag, body }
  }
  const [plain, zipped, brotli, none] = [
    await raw('identity'),
    await raw('gzip, deflate'),
    await raw('gzip, br'),
    await raw('br;q=0'),
  ]
  expect([zipped.encoding, brotli.encoding, none.encoding]).toEqual(['gzip', 'br', undefined])
  expect(gunzipSync(zipped.body)).toEqual(plain.body)
  expect(brotliDecompressSync(brotli.body)).toEqual(plain.body)
  expect(new Set([plain.etag, zipped.etag, brotli.etag]).size).toBe(3)
  const mine = await app.fetch(`/api/orgs/local/repos/${place.owner}/${place.name}/releases`, {
    headers: { authorization: `Bearer ${app.adminKey}` },
  })
  expect(mine.headers.get('access-control-allow-origin')).toBeNull()
})

async function rawGet(url: string, encoding: string) {
  const { get } = await import('node:http')
  const { buffer } = await import('node:stream/consumers')
  const { promise, resolve, reject } = Promise.withResolvers<import('node:http').IncomingMessage>()
  get(url, { headers: { 'accept-encoding': encoding } }, resolve).on('error', reject)
  const response = await promise
  return { status: response.statusCode, headers: response.headers, body: await buffer(response) }
}

test("the default line is the owner's, else the newest endorsed, else the newest", async () => {
  await using host = await startCodeHost()
  await using own = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url })
  host.add('Octo/Multi')
  const place = { owner: 'Octo', name: 'Multi' }
  const { digests } = await openReleaseLab(own)
  const join = (login: string) => openSecondReleaseLab(own, { login, place, digests }, [{ id: A, cells: 'ppffff' }])
  const shown = async () => {
    const { body } = await own.call(schema.listResults, { key: null })
    const { body: page } = await own.call(schema.readResults, { params: place, key: null })
    const defaults = body.cards.filter((card: { defaultLine: boolean }) => card.defaultLine)
    expect(defaults).toHaveLength(1)
    expect(page.lines[0].release.publisher).toEqual(defaults[0].publisher)
    return {
      first: defaults[0].publisher.login,
      endorsed: body.cards.filter((card: { endorsed: boolean }) => card.endorsed).length,
      lines: page.lines.length,
    }
  }
  const [second, third] = [await join('second'), await join('third')]
  await second.publishAll()
  await third.publishAll()
  expect(await shown()).toEqual({ first: 'third', endorsed: 0, lines: 2 })
  const owner = await join('octo')
  await own.call(verifyWorkspace, { params: { login: 'octo' }, key: OPERATOR_KEY })
  const endorsing = { ...place, org: 'octo', publisher: 'second' }
  await own.call(putEndorsement, { params: endorsing, key: owner.key })
  expect(await shown()).toEqual({ first: 'second', endorsed: 1, lines: 2 })
  await owner.publishAll()
  await third.ran({ id: A, cells: '--p---' })
  await third.publishAll()
  expect(await shown()).toEqual({ first: 'octo', endorsed: 2, lines: 3 })
  const csv = await own.call(schema.readResultsCsv, { params: place, query: { publisher: 'third' }, key: null })
  expect(csv.text.split('\r\n')[1]).toMatch(/^Octo\/Multi,third,/)
})

describe('the response cache', () => {
  test('is cleared in every process by a publication, and off without change notifications', async () => {
    const storage = { ASSAY_CREDENTIAL_STORAGE: 'off', ASSAY_PUBLIC_OWNERS: 'lab=local' }
    await using writer = await testApp(storage)
    await using reader = await testApp(storage, writer.database)
    const lab = await openReleaseLab(writer)
    await lab.ran({ id: A, cells: 'ppffff' })
    await lab.publishAll()
    const path = `/api/public/results/${lab.place.owner}/${lab.place.name}`
    const tamper = (card: string) => writer.database.pool.query('update result_lines set line = $1', [card])
    const line = async () => (await reader.fetch(path)).text
    const honest = await line()
    const { cache, untilActive, untilInvalidated, untilInactive } = listening(reader)
    const listener = listenForChanges(writer.database.url, cache)
    await untilActive()
    expect(await line()).toBe(honest)
    // Behind the back of everybody: only what is kept is the same still.
    await tamper('{}')
    expect(await line()).toBe(honest)
    const next = untilInvalidated()
    await lab.ran({ id: A, cells: '--pp--' })
    await lab.publishAll()
    await next
    const second = await line()
    expect(second).not.toBe(honest)
    await tamper('{}')
    expect(await line()).toBe(second)
    const gone = untilInactive()
    const back = untilActive()
    await writer.database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'assay-results'`,
    )
    await gone
    expect(await line()).toBe('{"lines":[{}]}')
    await back
    await listener.close()
  })

  test('a publisher reads its own release immediately', async () => {
    const lab = await openReleaseLab(app)
    const listener = listenForChanges(app.database.url, app.tools.results)
    for (const cells of ['p-----', 'pp----', 'ppp---']) {
      await lab.ran({ id: A, cells })
      const { body } = await lab.publishAll()
      const { cards } = (await open(schema.listResults, { query: { limit: '1' } })).body
      expect(cards[0].releaseId).toBe(body.releaseId)
      const { lines } = (await open(schema.readResults, { params: lab.place })).body
      expect(lines[0].release.releaseId).toBe(body.releaseId)
    }
    await listener.close()
  })
})

/** The cache of an app, with a way to wait for what it hears. */
function listening({ tools: { results } }: TestApp) {
  const waiting = new Map<string, () => void>()
  const until = (name: string) => () => new Promise<void>((resolve) => waiting.set(name, resolve))
  const told = (name: string, work: () => void) => {
    work()
    waiting.get(name)?.()
  }
  return {
    cache: {
      ...results,
      activate: () => told('activate', results.activate),
      deactivate: () => told('deactivate', results.deactivate),
      invalidate: (name: string) => told('invalidate', () => results.invalidate(name)),
    },
    untilActive: until('activate'),
    untilInactive: until('deactivate'),
    untilInvalidated: until('invalidate'),
  }
}

test('the feed lists the newest releases with their URLs', async () => {
  const { place, release } = await published()
  const { text, headers } = await app.fetch('/api/public/results.atom')
  expect(headers.get('content-type')).toBe('application/atom+xml; charset=utf-8')
  expect(text).toContain(`<id>urn:uuid:${release.releaseId}</id>`)
  expect(text).toContain(`href="https://results.example/results/${place.owner}/${place.name}"`)
  expect(text).toContain(`href="https://results.example/api/public/results/${place.owner}/${place.name}"`)
})

test('an endorsement appears in the card immediately', async () => {
  const lab = await published()
  const { body: before } = await open(schema.listResults, { query: { q: lab.place.name } })
  const owner = await app.otherWorkspace(lab.place.owner)
  await app.call(verifyWorkspace, { params: { login: owner.login }, key: OPERATOR_KEY })
  await app.call(putEndorsement, { params: { org: owner.login, ...lab.place, publisher: 'local' }, key: owner.key })
  const { body: after } = await open(schema.listResults, { query: { q: lab.place.name } })
  expect([before.cards[0].endorsed, after.cards[0].endorsed]).toEqual([false, true])
})

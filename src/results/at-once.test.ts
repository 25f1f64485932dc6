import { expect, test } from 'vitest'
import { testApp } from '../../test/support/app.ts'
import { openReleaseLab } from '../../test/support/releases.ts'
import { listenForChanges } from './cache.ts'

// What was asked for before in the same words is answered before the router. Nobody can tell, but by the time it takes.

const A = 'acme/small|mini|low'

async function published(environment: Record<string, string> = {}) {
  const app = await testApp({ ASSAY_PUBLIC_OWNERS: 'lab=local', ...environment })
  const changes = listenForChanges(app.database.url, app.tools.results)
  const lab = await openReleaseLab(app)
  await lab.ran({ id: A, cells: 'ppffff' })
  await lab.publishAll()
  const path = `/api/public/results/${lab.place.owner}/${lab.place.name}`
  const isKept = (target = path) => app.tools.results.find(target, 'identity') !== undefined
  await expect.poll(async () => (await app.fetch(path)).status === 200 && isKept()).toBe(true)
  return {
    app,
    lab,
    path,
    isKept,
    async [Symbol.asyncDispose]() {
      await changes.close()
      await app[Symbol.asyncDispose]()
    },
  }
}

/** Returns a response without the headers that differ between requests. */
async function fetchStable(app: Awaited<ReturnType<typeof testApp>>, target: string, headers: Record<string, string>) {
  const response = await fetch(`${app.url}${target}`, { headers: { 'accept-encoding': 'identity', ...headers } })
  const { date: _, 'x-request-id': __, ...rest } = Object.fromEntries(response.headers)
  return { status: response.status, headers: rest, body: await response.text() }
}

test.each(['', '/results.csv', '/chart.svg', '/history'])(
  '%s is the same from the router and from the cache',
  async (part) => {
    await using lab = await published()
    const target = `${lab.path}${part}`
    lab.app.tools.results.clear()
    const routed = await fetchStable(lab.app, target, {})
    expect(lab.isKept(target)).toBe(true)
    expect(await fetchStable(lab.app, target, {})).toEqual(routed)
    const known = { 'if-none-match': routed.headers.etag ?? '' }
    const again = await fetchStable(lab.app, target, known)
    lab.app.tools.results.clear()
    expect(again).toMatchObject({ status: 304, body: '' })
    expect(await fetchStable(lab.app, target, known)).toEqual(again)
  },
)

test('a cached answer has a request id and a log line like any other', async () => {
  await using lab = await published()
  const response = await fetch(`${lab.app.url}${lab.path}`, { headers: { 'x-request-id': 'asked-at-once' } })
  expect(response.headers.get('x-request-id')).toBe('asked-at-once')
  const line = lab.app
    .logged()
    .split('\n')
    .find((each) => each.includes('asked-at-once'))
  expect(JSON.parse(line ?? '')).toMatchObject({ operation: 'readResults', status: 200 })
})

test('a cached answer counts towards the rate limit', async () => {
  await using lab = await published({ ASSAY_RATE_LIMIT: '40' })
  let answer = await fetchStable(lab.app, lab.path, {})
  const left = answer.headers.ratelimit
  for (let tries = 0; tries < 50 && answer.status === 200; tries++) answer = await fetchStable(lab.app, lab.path, {})
  expect(left).toMatch(/^"default";r=\d+;t=\d+$/)
  expect(lab.isKept()).toBe(true)
  expect(answer).toMatchObject({ status: 429, headers: { 'access-control-allow-origin': '*' } })
  expect(JSON.parse(answer.body)).toMatchObject({ code: 'rate_limited' })
})

test('a changed result is not answered from the cache', async () => {
  await using lab = await published()
  const [{ releaseId }] = await lab.lab.list()
  await lab.lab.withdraw(releaseId)
  expect(lab.isKept()).toBe(false)
  expect((await fetchStable(lab.app, lab.path, {})).status).toBe(404)
})

test('many targets for the same entry do not fill the memory', async () => {
  await using lab = await published()
  const targets = Array.from({ length: 20 }, (_, n) => `${lab.path}?x=${n}`)
  for (const target of targets) expect((await fetchStable(lab.app, target, {})).status).toBe(200)
  expect(targets.filter(lab.isKept).length).toBeLessThan(9)
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey } from '../../src/workspaces/key.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { openReleaseLab } from '../support/releases.ts'
import { type ServiceProcess, startService } from '../support/service.ts'

// Two API processes on one database, with many concurrent publish requests.

const STORAGE_OFF = { ASSAY_CREDENTIAL_STORAGE: 'off' }
const PUBLISHERS = 100

let app: TestApp
let services: ServiceProcess[]
const key = newKey()

beforeAll(async () => {
  app = await testApp(STORAGE_OFF)
  services = await Promise.all(
    ['one', 'two'].map((name) =>
      startService('api', ['--port', '0', '--data', `${app.tools.config.dataFolder}/${name}`], {
        ...STORAGE_OFF,
        DATABASE_URL: app.database.url,
        ASSAY_BOOTSTRAP_KEY: key,
      }),
    ),
  )
})
afterAll(async () => {
  await Promise.all(services.map((service) => service.kill('SIGTERM')))
  await app[Symbol.asyncDispose]()
})

const SETTINGS = ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => `acme/${name}|mini|low`)

async function previewed() {
  const lab = await openReleaseLab(app)
  await lab.ran(...SETTINGS.map((id, place) => ({ id, cells: 'pppfff', micros: 1000 + place })))
  const path = `/repos/${lab.place.owner}/${lab.place.name}/releases`
  return { ...lab, path, shown: await lab.preview() }
}

/** Sends the bodies concurrently to both processes. Returns the count of each status and the returned releases. */
async function publishAtOnce(path: string, bodies: object[]) {
  const answers = await Promise.all(
    bodies.map(async (body, place) => {
      const response = await fetch(`${services[place % 2]?.url}/api/orgs/local${path}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const told = await response.json()
      return { status: response.status, body: told as { releaseId?: string; preview: { head: string } } }
    }),
  )
  const counts = Object.fromEntries(
    [...Map.groupBy(answers, ({ status }) => status)].map(([status, all]) => [status, all.length]),
  )
  return { counts, answers, releases: new Set(answers.flatMap(({ body }) => body.releaseId ?? [])) }
}

test('publishing one preview a hundred times creates one release', async () => {
  const { path, shown, list } = await previewed()
  const body = { settings: SETTINGS, head: shown.head, fingerprint: shown.fingerprint }
  const { counts, releases } = await publishAtOnce(path, new Array(PUBLISHERS).fill(body))
  expect(counts).toEqual({ 201: 1, 200: PUBLISHERS - 1 })
  expect(releases.size).toBe(1)
  expect(await list()).toHaveLength(1)
})

test('of a hundred different selections of one preview one is published and the others are rejected as stale', async () => {
  const { path, shown, list } = await previewed()
  const bodies = Array.from({ length: PUBLISHERS }, (_, place) => ({
    settings: SETTINGS.filter((_setting, bit) => (place + 1) & (1 << bit)),
    head: shown.head,
    fingerprint: shown.fingerprint,
  }))
  const { counts, answers, releases } = await publishAtOnce(path, bodies)
  expect(counts).toEqual({ 201: 1, 409: PUBLISHERS - 1 })
  const [winner] = releases
  const stale = answers.filter(({ status }) => status === 409)
  expect(new Set(stale.map(({ body }) => body.preview.head))).toEqual(new Set([winner]))
  expect(await list()).toHaveLength(1)
})

test('a release that one process publishes is shown by the other', async () => {
  const { path, shown, place } = await previewed()
  const url = `${services[1]?.url}/api/public/results/${place.owner}/${place.name}`
  expect((await fetch(url)).status).toBe(404)
  const body = { settings: SETTINGS.slice(0, 1), head: null, fingerprint: shown.fingerprint }
  const { answers } = await publishAtOnce(path, [body])
  expect(answers[0]?.status).toBe(201)
  // The notification arrives shortly after.
  await expect.poll(async () => (await fetch(url)).status).toBe(200)
  const first = await (await fetch(url)).text()
  await services[1]?.kill('SIGTERM')
  services[1] = await startService('api', ['--port', '0', '--data', `${app.tools.config.dataFolder}/two`], {
    ...STORAGE_OFF,
    DATABASE_URL: app.database.url,
    ASSAY_BOOTSTRAP_KEY: key,
  })
  const again = await fetch(`${services[1].url}/api/public/results/${place.owner}/${place.name}`)
  expect(await again.text()).toBe(first)
})

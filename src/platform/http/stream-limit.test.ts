import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../../test/support/app.ts'
import { buildArchive, smallTask } from '../../../test/support/archives.ts'
import { openImportLab } from '../../../test/support/batches.ts'
import { createKey } from '../../workspaces/schema.ts'
import { STREAMS_PER_KEY_MAX, STREAMS_PER_WORKSPACE_MAX } from './rate-limit.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

/** Opens the event stream of a batch that waits for a worker. */
async function openStreams(app: TestApp) {
  const lab = await openImportLab(app)
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  const url = `${app.url}/api/orgs/local/repos/${lab.place.owner}/${lab.place.name}/batches/${runId}/events`
  return async (key: string) => {
    const leaving = new AbortController()
    const response = await fetch(url, { headers: { authorization: `Bearer ${key}` }, signal: leaving.signal })
    return { response, leave: () => leaving.abort() }
  }
}

test('a key has a limited number of event streams, and closing one makes room for another', async () => {
  const open = await openStreams(app)
  const streams = await Promise.all(Array.from({ length: STREAMS_PER_KEY_MAX }, () => open(app.adminKey)))
  expect(new Set(streams.map(({ response }) => response.status))).toEqual(new Set([200]))

  const { response: refused } = await open(app.adminKey)
  expect(refused.status).toBe(429)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(await refused.json()).toMatchObject({ code: 'rate_limited', retryable: true })

  const { body: other } = await app.call(createKey, { body: { name: 'other', permission: 'read' } })
  const { response: own, leave } = await open(other.key)
  expect(own.status).toBe(200)
  leave()

  streams[0]?.leave()
  await expect.poll(async () => (await open(app.adminKey)).response.status).toBe(200)
  for (const stream of streams) stream.leave()
})

test('the keys of a workspace together have a limited number of event streams', async () => {
  await using app = await testApp()
  const open = await openStreams(app)
  const keys = await Promise.all(
    Array.from({ length: STREAMS_PER_WORKSPACE_MAX / STREAMS_PER_KEY_MAX + 1 }, async (_, index) => {
      const { body } = await app.call(createKey, { body: { name: `stream ${index}`, permission: 'read' } })
      return String(body.key)
    }),
  )
  const streams = await Promise.all(keys.flatMap((key) => Array.from({ length: STREAMS_PER_KEY_MAX }, () => open(key))))
  const opened = streams.filter(({ response }) => response.status === 200)
  expect(opened).toHaveLength(STREAMS_PER_WORKSPACE_MAX)
  for (const stream of streams) stream.leave()
})

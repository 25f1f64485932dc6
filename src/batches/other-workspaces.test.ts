import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { openImportLab } from '../../test/support/batches.ts'
import type { Endpoint } from '../platform/http/endpoint.ts'
import * as repositories from '../repos/schema.ts'
import * as schema from './schema.ts'

let app: TestApp
let victim: { runId: string; taskId: string; digest: string; place: { owner: string; name: string } }
let other: { key: string; login: string }
beforeAll(async () => {
  app = await testApp()
  const lab = await openImportLab(app)
  const { runId, tasks } = await lab.imported({ hello: smallTask() })
  victim = { runId, taskId: tasks[0].taskId, digest: tasks[0].digest, place: lab.place }
  other = await app.otherWorkspace()
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  await app.call(repositories.connectRepository, {
    key: other.key,
    params: { org: other.login, ...victim.place },
    body: { source },
  })
})
afterAll(async () => app[Symbol.asyncDispose]())

const isEndpoint = (value: unknown): value is Endpoint => typeof value === 'object' && value !== null && 'path' in value
const endpoints = (all: object): Endpoint[] => Object.values(all).filter(isEndpoint)

/** A body that each takes, so that it is looked for and not only read. */
function wishFor({ id }: Endpoint) {
  const decision = { decision: 'approved', digest: victim.digest }
  const bodies: Record<string, object> = {
    decideTask: decision,
    decideTasks: { decisions: [{ taskId: victim.taskId, ...decision }] },
    putBatchTaskFile: { content: 'x' },
    resumeBatch: {},
    previewBatch: {},
    connectRepository: { source: { kind: 'git', url: 'https://git.example.org/demo.git' } },
    createBatch: { candidateCounts: { easy: 1, medium: 0, hard: 0 } },
  }
  const upload = id === 'importBatch' ? { upload: buildArchive({ hello: smallTask() }) } : {}
  const body = bodies[id]
  return { ...upload, body, headers: { 'if-match': '"x"' } }
}

const ask = (endpoint: Endpoint, org: string) => {
  const { place, runId, taskId } = victim
  const params = { org, ...place, runId, taskId, path: 'instruction.md' }
  return app.call(endpoint, { key: other.key, params, ...wishFor(endpoint) } as never)
}

test('a key of another workspace can neither read nor change repositories and batches', async () => {
  for (const endpoint of [...endpoints(schema), ...endpoints(repositories)]) {
    const { status, text } = await ask(endpoint, 'local')
    expect([endpoint.id, [403, 404].includes(status), text.includes(victim.digest)]).toEqual([endpoint.id, true, false])
  }
})

test('does not find an id in a repository of the same name in another workspace', async () => {
  const byId = endpoints(schema).filter(({ path }) => path.includes('{runId}'))
  expect(byId.length).toBeGreaterThan(8)
  for (const endpoint of byId)
    expect([endpoint.id, (await ask(endpoint, other.login)).status]).toEqual([endpoint.id, 404])
  const { body } = await app.call(schema.readBatchTask, { params: { ...victim.place, ...victim } })
  expect(body).toMatchObject({ state: 'ready', decision: null, digest: victim.digest })
})

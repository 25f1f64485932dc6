import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Assay, AssayProblem, AssayUnreachable } from '../../sdk/typescript/src/client.ts'
import { type TestApp, testApp } from '../support/app.ts'
import { createScriptedEngine, openComparisonLab } from '../support/comparisons.ts'
import { workInBackground } from '../support/worker.ts'

let app: TestApp
let worker: AsyncDisposable
beforeAll(async () => {
  app = await testApp()
  const lab = await openComparisonLab(app, createScriptedEngine())
  worker = workInBackground(() => lab.work())
})
afterAll(async () => {
  await worker[Symbol.asyncDispose]()
  await app[Symbol.asyncDispose]()
})

/** What both clients must see. */
const SEEN = { tasks: 5, quoted: 5, state: 'completed', passed: 5, watched: true, trials: 5, problem: 'not_found' }

async function runInTypeScript(): Promise<typeof SEEN> {
  const assay = new Assay({ url: app.url, key: app.adminKey })
  const { org } = await assay.call('readOwnKey')
  const params = { org, datasetOrg: 'assay', dataset: 'quick' }
  const benchmark = await assay.call('addBenchmark', { params: { org }, body: { reference: 'assay/quick' } })
  const catalog = await assay.call('readCatalogOnBenchmark', { params })
  const credentialId = catalog.models.find(({ catalogId }) => catalogId === 'reference')?.credentials[0]?.id ?? ''
  const sandboxCredentialId = catalog.sandboxes.find(({ id }) => id === 'local')?.credentials[0]?.id ?? ''
  const body = {
    id: randomUUID(),
    models: [{ catalogId: 'reference', credentialId, harnesses: ['oracle'] }],
    sandbox: 'local',
    sandboxCredentialId,
  }
  const quote = await assay.call('quoteComparisonOnBenchmark', { params, body })
  const created = await assay.call('createComparisonOnBenchmark', { params, body })
  const at = { ...params, comparisonId: created.id }
  const states: string[] = []
  const ended = await assay.waitForComparison(at, { onStatus: ({ state }) => states.push(state) })
  const trials: string[] = []
  for await (const page of assay.pages('listTrialsOnBenchmark', { params: at, query: { limit: 2 } }))
    trials.push(...page.trials.map(({ id }) => id))
  const problem = await assay
    .call('readBenchmark', { params: { org, datasetOrg: 'no', dataset: 'such' } })
    .catch((error: unknown) => (error instanceof AssayProblem ? error.problem.code : 'another error'))
  return {
    tasks: benchmark.tasks,
    quoted: quote.trials,
    state: ended.state,
    passed: ended.trials.passed,
    watched: states.length > 0,
    trials: trials.length,
    problem: String(problem),
  }
}

test('the TypeScript SDK goes from a benchmark to the result of a comparison', async () => {
  expect(await runInTypeScript()).toEqual(SEEN)
})

test('the Python SDK goes from a benchmark to the result of a comparison', async () => {
  const scenario = new URL('scenario.py', import.meta.url).pathname
  const sdk = new URL('../../sdk/python', import.meta.url).pathname
  const { PATH = '' } = process.env
  const child = spawn('python3', [scenario], {
    env: { PATH, ASSAY_URL: app.url, ASSAY_KEY: app.adminKey, ASSAY_SDK: sdk, PYTHONDONTWRITEBYTECODE: '1' },
  })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  expect(code, err).toBe(0)
  expect(JSON.parse(out)).toEqual(SEEN)
})

test('requests that can be repeated safely are retried, others are not', async () => {
  const seen: string[] = []
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.headers['idempotency-key'] ?? '-'}`)
    response.writeHead(503, { 'retry-after': '0' }).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  const assay = new Assay({ url: `http://127.0.0.1:${port}`, key: 'assay_x', retries: 2 })
  await expect(assay.call('readOwnKey')).rejects.toThrow(AssayUnreachable)
  expect(seen).toEqual(['GET -', 'GET -', 'GET -'])
  seen.length = 0
  const body = { decision: 'approved' as const, digest: '' }
  const params = { org: 'local', owner: 'a', name: 'b', runId: 'batch-1', taskId: 'c' }
  await expect(assay.call('decideTask', { params, body })).rejects.toThrow(AssayUnreachable)
  expect(seen).toEqual(['POST -'])
  seen.length = 0
  await expect(
    assay.call('createKey', { params: { org: 'local' }, body: { name: 'x', permission: 'read' } }),
  ).rejects.toThrow()
  expect(new Set(seen).size).toBe(1)
  expect(seen).toHaveLength(3)
  server.close()
})

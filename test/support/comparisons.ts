import { randomUUID } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addBenchmark } from '../../src/benchmarks/schema.ts'
import { inBenchmark, inRepository } from '../../src/comparisons/schema.ts'
import type { TrialEngine, TrialRunRequest } from '../../src/comparisons/trials/engine.ts'
import type { Endpoint } from '../../src/platform/http/endpoint.ts'
import type { Services } from '../../src/services.ts'
import type { TrialRecord } from '../../src/trials/record.ts'
import type { TestApp } from './app.ts'
import { smallTask } from './archives.ts'
import { openImportLab } from './batches.ts'
import { buildTrialRecord } from './trial-record.ts'
import { testWorker } from './worker.ts'

export const QUICK = { datasetOrg: 'assay', dataset: 'quick' }

export type ScriptedEngine = TrialEngine & { orders: TrialRunRequest[]; calibrations: string[] }

/** Creates an engine without sandboxes. The oracle passes and the no-op fails unless the test overrides it. */
export function createScriptedEngine(
  run: (order: TrialRunRequest) => Partial<TrialRecord> | Promise<Partial<TrialRecord>> = () => ({}),
) {
  const engine: ScriptedEngine = {
    orders: [],
    calibrations: [],
    async calibrate(order) {
      engine.calibrations.push(order.task.digest)
      return { kind: 'fit', mode: 'workspace', agentNetwork: 'declared', verifierNetwork: 'declared', carried: [] }
    },
    async run(order) {
      engine.orders.push(order)
      writeFileSync(join(order.outputFolder, 'agent.log'), `${order.harness} worked on ${order.task.name}\n`)
      return buildTrialRecord(order, await run(order))
    },
  }
  return engine
}

/** The endpoints and path parameters of a scope, and how its tasks are selected. */
export type ScopeFixture = {
  endpoints: typeof inBenchmark | typeof inRepository
  params: Record<string, string>
  chosen: { tasks?: { runId: string; taskId: string }[] }
}

/** Opens a workspace with the sample benchmark, an available sandbox and a worker that runs on demand. */
export async function openComparisonLab(
  app: TestApp,
  engine: TrialEngine = createScriptedEngine(),
  more: Partial<Services> = {},
) {
  await app.call(addBenchmark, { body: { reference: 'assay/quick' } })
  return openComparisonLabIn(app, { endpoints: inBenchmark, params: QUICK, chosen: {} }, engine, more)
}

export const APPROVED = ['one', 'two', 'three', 'four', 'five']

/** Opens a lab on five approved tasks of a repository. */
export async function openRepositoryComparisonLab(
  app: TestApp,
  engine: TrialEngine = createScriptedEngine(),
  more: Partial<Services> = {},
) {
  const repository = await openImportLab(app)
  const folders = APPROVED.map((id) => [id, smallTask({ 'instruction.md': `Say hello, ${id}.\n` })])
  const { runId, tasks } = await repository.imported(Object.fromEntries(folders))
  for (const { taskId, digest } of tasks) await repository.decide(runId, taskId, { digest })
  const chosen = { tasks: APPROVED.map((taskId) => ({ runId, taskId })) }
  const grounds = { endpoints: inRepository, params: repository.place, chosen }
  return { ...(await openComparisonLabIn(app, grounds, engine, more)), repository, runId }
}

export async function openComparisonLabIn(
  app: TestApp,
  { endpoints, params, chosen }: ScopeFixture,
  engine: TrialEngine,
  more: Partial<Services>,
) {
  const { tools, work, offer } = await testWorker(app, { engine, ...more })
  const { body: catalog } = await app.call(endpoints.catalog, { params })
  const reference: string = catalog.models[0].credentials[0].id
  const local: string = catalog.sandboxes[0].credentials[0].id
  const body = (over: object = {}) => ({
    id: randomUUID(),
    ...chosen,
    models: [{ catalogId: 'reference', credentialId: reference, harnesses: ['oracle', 'nop'] }],
    sandbox: 'local',
    sandboxCredentialId: local,
    ...over,
  })
  const at = (comparisonId: string, over: object = {}) => ({ params: { ...params, comparisonId, ...over } })
  return {
    tools,
    work,
    offer,
    reference,
    local,
    body,
    at,
    endpoints,
    params,
    create: (over: object = {}) => app.call<Endpoint>(endpoints.create, { params, body: body(over) as never }),
    read: async (id: string) => (await app.call(endpoints.read, at(id))).body,
    resume: (id: string, change: object = {}) => app.call(endpoints.resume, { ...at(id), body: change }),
    pause: (id: string) => app.call(endpoints.pause, at(id)),
    cancel: (id: string) => app.call(endpoints.cancel, at(id)),
    trials: async (id: string, query: Record<string, string> = {}) =>
      (await app.call(endpoints.trials, { ...at(id), query })).body.trials,
  }
}

export type ComparisonLab = Awaited<ReturnType<typeof openComparisonLab>>

import { setTimeout as wait } from 'node:timers/promises'
import { createApp, sandboxJobs, serviceJobs } from '../../src/app.ts'
import { reportCapabilities } from '../../src/catalog/capabilities.ts'
import { snapshot } from '../../src/catalog/models.ts'
import type { TrialEngine } from '../../src/comparisons/trials/engine.ts'
import { readConfig } from '../../src/config.ts'
import { type Harness, noModel } from '../../src/harnesses/harness.ts'
import { harnesses } from '../../src/harnesses/harnesses.ts'
import { startWorker } from '../../src/platform/jobs/worker.ts'
import { listen } from '../../src/platform/listen.ts'
import { createLog } from '../../src/platform/log.ts'
import { openServices } from '../../src/services.ts'
import { openStore } from '../../src/store.ts'
import type { TrialRecord } from '../../src/trials/record.ts'
import { ensureBootstrapKey } from '../../src/workspaces/workspaces.ts'
import { buildTrialRecord } from './trial-record.ts'

// Runs one role of the service with a no-op engine and a catalog of many settings, to measure the cost of bookkeeping.

const [role, holdMs = '0'] = process.argv.slice(2)

/** Replaces the catalog with generated models. */
function fillCatalog(): void {
  const all = harnesses as Harness[]
  for (let n = 0; n < 5; n++) {
    const id = `bench-${n}`
    all.push({ ...noModel, id, name: id, version: '1', protocolFor: () => 'openai-chat', plan: () => undefined })
  }
  for (let n = 0; n < 12; n++) {
    const catalogId = `bench/model-${n}`
    snapshot.models.push({
      catalogId,
      name: catalogId,
      label: catalogId,
      provider: 'none',
      protocols: ['openai-chat'],
      contextTokens: 1,
      outputTokens: 1,
      knowledgeCutoff: null,
      cutoffSource: null,
      defaultLevel: 'none',
      levels: [{ level: 'none', wire: { nothing: true } }],
      prices: [{ validFrom: null, prices: { input: 0, output: 0 } }],
    })
  }
}

const ENDED: Partial<TrialRecord> = {
  state: 'passed',
  reward: 1,
  rewards: { reward: 1 },
  timings: { prepare: 1.234, agent: 123.456, verify: 3.21, total: 127.9 },
}

const idle: TrialEngine = {
  calibrate: async () => ({
    ...({
      kind: 'fit',
      mode: 'workspace',
      agentNetwork: 'declared',
      verifierNetwork: 'declared',
      carried: [],
    } as const),
  }),
  run: async (order, signal) => {
    if (holdMs !== '0') await wait(Number(holdMs), undefined, { signal })
    return buildTrialRecord(order, ENDED)
  },
}

fillCatalog()
const config = readConfig(process.env)
const log = createLog('error')
const store = await openStore(config, log)
const tools = { ...(await openServices(config, store.database, log)), engine: idle }
if (role === 'api') {
  if (config.bootstrapKey) await ensureBootstrapKey(store.database.db, config.bootstrapKey)
  const { url } = await listen(createApp(tools).handle, '127.0.0.1', 0)
  console.log(`assay ready ${url}`)
} else {
  const work = (handlers: ReturnType<typeof serviceJobs>) =>
    startWorker({ database: store.database, handlers, slots: config.workerSlots, log })
  if (role === 'submit') work(serviceJobs(tools))
  const sandboxes = [{ sandbox: 'local', test: async () => ({ isolation: 'none' }) }]
  reportCapabilities({ db: store.database.db, log }, sandboxes, (name) => {
    if (role === 'work') work(sandboxJobs(tools, name))
    console.log('assay ready')
  })
}

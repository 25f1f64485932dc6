import { readFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'
import { createApp, sandboxJobs, serviceJobs } from '../src/app.ts'
import { reportCapabilities } from '../src/catalog/capabilities.ts'
import { readConfig } from '../src/config.ts'
import { startWorker } from '../src/platform/jobs/worker.ts'
import { listen } from '../src/platform/listen.ts'
import { createLog } from '../src/platform/log.ts'
import { createLocalProvider } from '../src/sandboxes/local.ts'
import { openServices } from '../src/services.ts'
import { openStore } from '../src/store.ts'
import { type ExecutionInput, execute } from '../src/taskgen/execution/execute.ts'
import { done } from '../src/taskgen/stage-result.ts'
import { ensureBootstrapKey } from '../src/workspaces/workspaces.ts'
import { createScriptedStages, doneAt, type StageScript } from '../test/support/taskgen/scripted-stages.ts'

// Runs one role of the service in which only the execution stage does work: it waits for some milliseconds or runs the tests
// given in a file. Queue, leases and rows are real.

type ExecuteStage = NonNullable<StageScript['execution']>

const waiting =
  (ms: number): ExecuteStage =>
  async (making, _, signal) => {
    await wait(ms, undefined, { signal })
    return done(doneAt('execution', making))
  }

const running =
  (order: Omit<ExecutionInput, 'folder'>): ExecuteStage =>
  async (making, tools, signal) => {
    const result = await execute(tools.provider(), { ...order, folder: tools.folder }, signal)
    return result.kind === 'done' ? done(doneAt('execution', making)) : result
  }

const [role, execution = '0'] = process.argv.slice(2)
const config = readConfig(process.env)
const log = createLog('error')
const store = await openStore(config, log)
const runExecution = /^\d+$/.test(execution)
  ? waiting(Number(execution))
  : running(JSON.parse(readFileSync(execution, 'utf8')))
const provider = createLocalProvider({ ...config, runtime: 'bwrap', log })
const opened = await openServices(config, store.database, log)
const tools = { ...opened, stages: createScriptedStages({ execution: runExecution }), findProvider: () => provider }
if (role === 'api') {
  if (config.bootstrapKey) await ensureBootstrapKey(store.database.db, config.bootstrapKey)
  const { url } = await listen(createApp(tools).handle, '127.0.0.1', 0)
  console.log(`assay ready ${url}`)
} else {
  const room = {
    slots: config.workerSlots,
    memoryMb: config.workerMemoryMb,
    startsPerSecond: config.workerStartsPerSecond,
  }
  const work = (handlers: ReturnType<typeof serviceJobs>) =>
    startWorker({ database: store.database, handlers, log, ...room })
  work(serviceJobs(tools))
  reportCapabilities({ db: store.database.db, log }, [{ sandbox: 'local', test: provider.selfTest }], (name) => {
    work(sandboxJobs(tools, name))
    console.log('assay ready')
  })
}

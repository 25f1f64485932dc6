import { mkdirSync } from 'node:fs'
import { createApp, jobKinds, openTools, type Tools, trialKinds } from './app.ts'
import { offerSandboxes } from './catalog/offers.ts'
import type { Config } from './config.ts'
import { listen } from './platform/http/listen.ts'
import type { RunnableKind } from './platform/jobs/jobs.ts'
import { startWorker, type Worker } from './platform/jobs/worker.ts'
import type { Log } from './platform/log.ts'
import { openStore } from './store.ts'
import { bootstrap } from './workspaces/workspaces.ts'

/** serve: everything in one process. api and work: one part each, any number of them on one database. */
export type Role = 'serve' | 'api' | 'work'

export type Running = {
  /** Where the service answers. A lone worker answers nowhere. */
  url: string | undefined
  /** The first admin key, when this start made it up. It is shown once and kept nowhere. */
  newKey: string | undefined
  stop(): Promise<void>
}

const GRACE_MS = 10_000

export async function start(role: Role, config: Config, log: Log): Promise<Running> {
  mkdirSync(config.dataFolder, { recursive: true, mode: 0o700 })
  await using undo = new AsyncDisposableStack()

  const store = await openStore(config, log)
  undo.defer(store.stop)
  const tools = await openTools(config, store.database, log)

  if (role !== 'api') undo.defer(startWork(tools))
  const url = role === 'work' ? undefined : await startAnswering(tools, undo)
  // Last of all: a key that was made up must be shown, and a start that fails shows nothing.
  const { newKey } = await bootstrap(store.database.db, config.bootstrapKey)

  const running = undo.move()
  return { url, newKey, stop: () => running.disposeAsync() }
}

function startWork(tools: Tools): () => Promise<void> {
  const { database, config, log, metrics } = tools
  const workers: Worker[] = []
  const work = (kinds: RunnableKind[]) => workers.push(startWorker({ database, kinds, slots: config.workerSlots, log }))
  work(jobKinds(tools))
  // Apart from the others: trials that take hours must not keep a submission waiting.
  const offers = offerSandboxes({ db: database.db, log }, tools.sandboxes, (name) => work(trialKinds(tools, name)))
  const sum = (name: 'running' | 'done' | 'failed') => workers.reduce((all, worker) => all + worker.counts()[name], 0)
  metrics.gauge('assay_jobs_running', 'Jobs that run in this process', () => sum('running'))
  metrics.gauge('assay_jobs_done', 'Jobs done by this process', () => sum('done'))
  metrics.gauge('assay_jobs_failed', 'Jobs given up by this process', () => sum('failed'))
  return async () => {
    await offers.stop()
    await Promise.all(workers.map((worker) => worker.stop(GRACE_MS)))
  }
}

/** Parts that were started last stop first: no request arrives any more when the worker and the database go. */
async function startAnswering(tools: Tools, undo: AsyncDisposableStack): Promise<string> {
  const { config } = tools
  const listening = await listen(createApp(tools), config.host, config.port)
  undo.defer(() => listening.stop(GRACE_MS))
  tools.listensAt(listening.url)
  return tools.baseUrl()
}

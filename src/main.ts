import { mkdirSync } from 'node:fs'
import { createApp, sandboxJobs, serviceJobs } from './app.ts'
import { offerSandboxes } from './catalog/offers.ts'
import { limitCredentials } from './comparisons/trials/queue/queue.ts'
import type { Config } from './config.ts'
import { announceKeys } from './credentials/key-holders.ts'
import { startModelGateway } from './model-gateway.ts'
import { listen } from './platform/http/listen.ts'
import type { JobHandler } from './platform/jobs/jobs.ts'
import { startWorker, type Worker } from './platform/jobs/worker.ts'
import type { Log } from './platform/log.ts'
import { listenForChanges } from './results/changes.ts'
import { openStore } from './store.ts'
import { openTools, type Tools } from './tools.ts'
import { bootstrap } from './workspaces/workspaces.ts'

/** serve: everything in one process. The others: one part each, any number of them on one database. */
export type Role = 'serve' | 'api' | 'work' | 'gateway'

export type Running = {
  /** Where the service answers, or a lone gateway. A lone worker answers nowhere. */
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
  if (tools.keyring) undo.defer(announceKeys({ db: store.database.db, keyring: tools.keyring, log }).stop)

  const gatewayUrl = role === 'serve' || role === 'gateway' ? await startMetering(role, tools, undo) : undefined
  if (role === 'serve' || role === 'work') {
    await limitCredentials(store.database.db, config.credentialTrials)
    undo.defer(startWork(tools))
  }
  const isAnswering = role === 'serve' || role === 'api'
  const url = isAnswering ? await startAnswering(tools, undo) : gatewayUrl
  // Last of all: a key that was made up must be shown, and a start that fails shows nothing. Only the API shows it;
  // the output of workers and gateways may go elsewhere.
  const isBootstrapping = isAnswering || config.bootstrapKey !== undefined
  const { newKey } = isBootstrapping ? await bootstrap(store.database.db, config.bootstrapKey) : {}

  const running = undo.move()
  return { url, newKey, stop: () => running.disposeAsync() }
}

/** Where a gateway that runs apart is looked for. Within `serve` nobody has to know. */
const GATEWAY_PORT = 4001

/** Before the worker, whose trials need it, and so stopped after it. */
async function startMetering(role: Role, tools: Tools, undo: AsyncDisposableStack): Promise<string> {
  const { host, port = role === 'gateway' ? GATEWAY_PORT : 0 } = tools.config.gateway
  const gateway = await startModelGateway(tools, { host, port })
  undo.defer(() => gateway.stop(GRACE_MS))
  tools.gatewayAt(gateway.url)
  tools.metrics.gauge('assay_gateway_tunnels', 'Open connections of sandboxes', gateway.tunnels)
  return gateway.url
}

function startWork(tools: Tools): () => Promise<void> {
  const { database, config, log, metrics } = tools
  const workers: Worker[] = []
  const inSandbox = new Map<string, Worker>()
  const work = (handlers: JobHandler[]): Worker => {
    const worker = startWorker({ database, handlers, log, ...roomOf(config) })
    workers.push(worker)
    return worker
  }
  work(serviceJobs(tools))
  // Apart from the others: trials that take hours must not keep a submission waiting. And only while the sandbox works:
  // its trials go to others meanwhile.
  const offers = offerSandboxes({ db: database.db, log }, tools.sandboxes, (name, available) => {
    if (available) inSandbox.set(name, work(sandboxJobs(tools, name)))
    else void inSandbox.get(name)?.stop(GRACE_MS)
  })
  const sum = (name: 'running' | 'done' | 'failed') => workers.reduce((all, worker) => all + worker.counts()[name], 0)
  metrics.gauge('assay_jobs_running', 'Jobs that run in this process', () => sum('running'))
  metrics.gauge('assay_jobs_done', 'Jobs done by this process', () => sum('done'))
  metrics.gauge('assay_jobs_failed', 'Jobs given up by this process', () => sum('failed'))
  return async () => {
    await offers.stop()
    await Promise.all(workers.map((worker) => worker.stop(GRACE_MS)))
  }
}

const roomOf = ({ workerSlots, workerMemoryMb, workerStartsPerSecond }: Config) => ({
  ...{ slots: workerSlots, memoryMb: workerMemoryMb, startsPerSecond: workerStartsPerSecond },
})

/** Parts that were started last stop first: no request arrives any more when the worker and the database go. */
async function startAnswering(tools: Tools, undo: AsyncDisposableStack): Promise<string> {
  const { config } = tools
  const listening = await listen(createApp(tools), config.host, config.port)
  undo.defer(listenForChanges(tools.database.url, tools.results).close)
  undo.defer(() => listening.stop(GRACE_MS))
  tools.listensAt(listening.url)
  return tools.baseUrl()
}

import { mkdirSync } from 'node:fs'
import { createApp, sandboxJobs, serviceJobs } from './app.ts'
import { reportCapabilities } from './catalog/capabilities.ts'
import { limitCredentials } from './comparisons/trials/queue/queue.ts'
import type { Config } from './config.ts'
import { announceKeys } from './credentials/key-holders.ts'
import { startModelGateway } from './model-gateway.ts'
import { listen } from './platform/http/listen.ts'
import type { JobHandler } from './platform/jobs/jobs.ts'
import { startWorker, type Worker } from './platform/jobs/worker.ts'
import type { Log } from './platform/log.ts'
import { listenForChanges } from './results/changes.ts'
import { openServices, type Services } from './services.ts'
import { openStore } from './store.ts'
import { bootstrap } from './workspaces/workspaces.ts'

/** `serve` is everything in one process. The others are one part each; any number of them share one database. */
export type ServiceRole = 'serve' | 'api' | 'work' | 'gateway'

export type RunningRole = {
  /** Address of the API, or of a gateway that runs alone. Undefined for a worker. */
  url: string | undefined
  /** The first admin key, if this start created it. Shown once and not stored. */
  newKey: string | undefined
  stop(): Promise<void>
}

const GRACE_MS = 10_000

export async function start(role: ServiceRole, config: Config, log: Log): Promise<RunningRole> {
  mkdirSync(config.dataFolder, { recursive: true, mode: 0o700 })
  await using undo = new AsyncDisposableStack()

  const store = await openStore(config, log)
  undo.defer(store.stop)
  const services = await openServices(config, store.database, log)
  const isFit = startKeyWatch(services, undo)

  const isGateway = role === 'serve' || role === 'gateway'
  const gatewayUrl = isGateway ? await startRoleGateway(role, services, { isFit, undo }) : undefined
  if (role === 'serve' || role === 'work') {
    await limitCredentials(store.database.db, config.credentialTrials)
    undo.defer(startWorkers(services, isFit))
  }
  const isApi = role === 'serve' || role === 'api'
  const url = isApi ? await startApi(services, undo) : gatewayUrl
  // Last, because a created key must be shown and a failed start shows nothing. Only the API creates one: the output of
  // workers and gateways may go elsewhere.
  const isBootstrapping = isApi || config.bootstrapKey !== undefined
  const { newKey } = isBootstrapping ? await bootstrap(store.database.db, config.bootstrapKey) : {}

  const running = undo.move()
  return { url, newKey, stop: () => running.disposeAsync() }
}

/** Returns whether this process holds the master key in use. Without it, no work may be taken on. */
function startKeyWatch({ database, keyring, log }: Services, undo: AsyncDisposableStack): () => boolean {
  if (!keyring) return () => true
  const keys = announceKeys({ db: database.db, keyring, log })
  undo.defer(keys.stop)
  return keys.holdsActiveKey
}

/** Default port of a gateway that runs alone. `serve` uses any free port. */
const GATEWAY_PORT = 4001

/** Started before the workers, whose trials need it, and therefore stopped after them. */
async function startRoleGateway(
  role: ServiceRole,
  services: Services,
  { isFit, undo }: { isFit: () => boolean; undo: AsyncDisposableStack },
): Promise<string> {
  const { host, port = role === 'gateway' ? GATEWAY_PORT : 0 } = services.config.gateway
  const gateway = await startModelGateway({ ...services, isFit }, { host, port })
  undo.defer(() => gateway.stop(GRACE_MS))
  services.setGatewayUrl(gateway.url)
  services.metrics.gauge('assay_gateway_tunnels', 'Open connections of sandboxes', gateway.tunnels)
  return gateway.url
}

function startWorkers(services: Services, isFit: () => boolean): () => Promise<void> {
  const { database, config, log, metrics } = services
  const workers: Worker[] = []
  const inSandbox = new Map<string, Worker>()
  const work = (handlers: JobHandler[]): Worker => {
    const worker = startWorker({ database, handlers, log, mayClaim: isFit, ...toWorkerLimits(config) })
    workers.push(worker)
    return worker
  }
  work(serviceJobs(services))
  // Separate workers: trials that take hours must not delay a submission. They run only while the sandbox works;
  // otherwise its trials go to other processes.
  const capabilities = reportCapabilities({ db: database.db, log }, services.sandboxes, (name, available) => {
    if (available) inSandbox.set(name, work(sandboxJobs(services, name)))
    else void inSandbox.get(name)?.stop(GRACE_MS)
  })
  const sum = (name: 'running' | 'done' | 'failed') => workers.reduce((all, worker) => all + worker.counts()[name], 0)
  metrics.gauge('assay_jobs_running', 'Jobs running in this process', () => sum('running'))
  metrics.gauge('assay_jobs_done', 'Jobs done by this process', () => sum('done'))
  metrics.gauge('assay_jobs_failed', 'Jobs given up by this process', () => sum('failed'))
  return async () => {
    await capabilities.stop()
    await Promise.all(workers.map((worker) => worker.stop(GRACE_MS)))
  }
}

const toWorkerLimits = ({ workerSlots, workerMemoryMb, workerStartsPerSecond }: Config) => ({
  slots: workerSlots,
  memoryMb: workerMemoryMb,
  startsPerSecond: workerStartsPerSecond,
})

/** Started last and therefore stopped first: no requests arrive while the workers and the database stop. */
async function startApi(services: Services, undo: AsyncDisposableStack): Promise<string> {
  const { config } = services
  const listening = await listen(createApp(services), config.host, config.port)
  undo.defer(listenForChanges(services.database.url, services.results).close)
  undo.defer(() => listening.stop(GRACE_MS))
  services.setListeningUrl(listening.url)
  return services.baseUrl()
}

import { createApp, createWorkerApp, deliveryJobs, generationJobs, sandboxJobs, serviceJobs } from './app.ts'
import { reportCapabilities } from './catalog/capabilities.ts'
import { limitCredentials } from './comparisons/trials/queue/queue.ts'
import type { Config } from './config.ts'
import { announceKeys } from './credentials/master-key.ts'
import { resolveUpstream } from './credentials/providers.ts'
import type { Secret } from './credentials/seal.ts'
import { type OpenedSecret, openSecret } from './credentials/secrets.ts'
import { createGatewayCounters, type GatewayDeps } from './gateway/call-context.ts'
import { type Gateway, type ListenAddress, startGateway } from './gateway/gateway.ts'
import type { Grant } from './gateway/ledger.ts'
import type { GatewayOptions } from './gateway/options.ts'
import { startPruning } from './operate/prune.ts'
import { createDataFolder, readDisk } from './platform/data-folder.ts'
import { requireRightClock, watchClock } from './platform/db/clock.ts'
import { countWaitingJobs, type JobHandler, limitWorkspaceJobs } from './platform/jobs/jobs.ts'
import { startWorker, type Worker } from './platform/jobs/worker.ts'
import { listen } from './platform/listen.ts'
import type { Log } from './platform/log.ts'
import { createOpenStream } from './platform/outbound/open-stream.ts'
import { listenForChanges } from './results/cache.ts'
import { openServices, type Services } from './services.ts'
import { openStore } from './store.ts'
import { limitGeneration } from './taskgen/pipeline/enqueue.ts'
import { limitDeliveries } from './webhooks/emit.ts'
import { refreshBuild } from './workspace-app/build.ts'
import { createOperatorKeyTest } from './workspaces/authenticate.ts'
import { createFirstWorkspace, ensureBootstrapKey, findMemoryShare } from './workspaces/workspaces.ts'

/**
 * `serve` runs everything in one process. Each of the others runs one part; any number of processes share one database.
 */
export type ServiceRole = 'serve' | 'api' | 'work' | 'gateway'

type RunningRole = {
  /** Address of the API, of a gateway that runs alone, or of a worker's health and metrics. */
  url: string | undefined
  /** The first admin key, if this start created it. Shown once and not stored. */
  newKey: string | undefined
  stop(): Promise<void>
}

/** Time that requests and jobs have to finish when the process stops. */
const GRACE_MS = 10_000

/** Starts one role of the service. If a part fails to start, the parts that already run are stopped. */
export async function start(role: ServiceRole, config: Config, log: Log): Promise<RunningRole> {
  createDataFolder(config.dataFolder)
  await using undo = new AsyncDisposableStack()

  const store = await openStore(config, log)
  undo.defer(store.stop)
  const runsJobs = role === 'serve' || role === 'work'
  if (runsJobs) await requireRightClock(store.database.db)
  const services = await openServices(config, store.database, log)
  services.metrics.gauge('assay_jobs_queued', 'Jobs of all processes that wait for a worker', () =>
    // Reports NaN while the database is unavailable: a scrape still needs the other metrics.
    countWaitingJobs(store.database.db).catch(() => Number.NaN),
  )
  addDiskMetrics(services)
  undo.defer(services.tracer.stop)
  const holdsMasterKey = startKeyWatch(services, undo)
  const clock = await watchClock({ db: store.database.db, log })
  undo.defer(clock.stop)
  // The key is stored before the API listens, so that no request with it is refused.
  if (config.bootstrapKey) await ensureBootstrapKey(store.database.db, config.bootstrapKey)

  const isGateway = role === 'serve' || role === 'gateway'
  const gatewayUrl = isGateway ? await startRoleGateway(role, services, { holdsMasterKey, undo }) : undefined
  if (runsJobs) {
    await limitCredentials(store.database.db, config.credentialTrials)
    await limitDeliveries(store.database.db)
    await limitWorkspaceJobs(store.database.db, config.workerSlots)
    await limitGeneration(store.database.db, config.workerSlots)
    undo.defer(startWorkers(services, () => holdsMasterKey() && clock.isRight()))
    undo.defer(startPruning(config, log))
  }
  const isApi = role === 'serve' || role === 'api'
  const url = isApi ? await startApi(services, undo) : (gatewayUrl ?? (await startWorkerHealth(services, undo)))
  // The first key is created last, because it must be shown and a failed start shows nothing. Only the API creates it: the
  // output of workers and gateways may be discarded.
  const newKey = isApi ? await createFirstWorkspace(store.database.db) : undefined

  const running = undo.move()
  return { url, newKey, stop: () => running.disposeAsync() }
}

function addDiskMetrics({ metrics, config: { dataFolder } }: Services): void {
  const about = 'on the disk of the data folder'
  metrics.gauge('assay_disk_free_bytes', `Free space ${about}`, async () => (await readDisk(dataFolder)).freeBytes)
  metrics.gauge('assay_disk_size_bytes', `Space ${about}`, async () => (await readDisk(dataFolder)).totalBytes)
}

/**
 * Watches the master key. The returned function tells whether this process has the key in use; a process without it must
 * not accept work.
 */
function startKeyWatch({ database, keyring, log }: Services, undo: AsyncDisposableStack): () => boolean {
  if (!keyring) return () => true
  const keys = announceKeys({ db: database.db, keyring, log })
  undo.defer(keys.stop)
  return keys.holdsActiveKey
}

/** Default port of a gateway that runs alone. `serve` uses any free port. */
const GATEWAY_PORT = 4001

/** Starts the gateway. Trials need it, so it starts before the workers and stops after them. */
async function startRoleGateway(
  role: ServiceRole,
  services: Services,
  { holdsMasterKey, undo }: { holdsMasterKey: () => boolean; undo: AsyncDisposableStack },
): Promise<string> {
  const { host, port = role === 'gateway' ? GATEWAY_PORT : 0 } = services.config.gateway
  const gateway = await startModelGateway({ ...services, holdsMasterKey }, { host, port })
  undo.defer(() => gateway.stop(GRACE_MS))
  services.setGatewayUrl(gateway.url)
  services.metrics.gauge('assay_gateway_tunnels', 'Open connections of sandboxes', gateway.tunnels)
  return gateway.url
}

/**
 * Starts the gateway of this process, the only part that opens the keys of model providers. `holdsMasterKey` tells whether
 * it can open them. Default: always.
 */
export const startModelGateway = (
  services: Services & { holdsMasterKey?: () => boolean },
  address: ListenAddress,
  options: Partial<GatewayOptions> = {},
): Promise<Gateway> => startGateway(toGatewayDeps(services), address, options)

const toGatewayDeps = ({
  ledger,
  credentials,
  config,
  blobs,
  log,
  metrics,
  holdsMasterKey,
}: Parameters<typeof startModelGateway>[0]): GatewayDeps => ({
  ledger,
  blobs,
  openStream: createOpenStream(),
  openSecret: async (grant) =>
    selectSecret(grant, await openSecret(credentials, grant.workspaceId, grant.credentialId)),
  resolveUpstream: async (terms, workspaceId) =>
    resolveUpstream(terms, config.upstreams, await credentials.findModelTrust(credentials.db, workspaceId)),
  log,
  holdsMasterKey,
  counters: createGatewayCounters(metrics),
  metrics: { ...metrics, isOperatorKey: createOperatorKeyTest(config.operatorKey) },
})

/** Returns a secret only if it belongs to the provider of the grant. */
function selectSecret({ terms }: Grant, opened: OpenedSecret | undefined): Secret | undefined {
  return opened?.kind === 'model' && opened.provider === terms.provider ? opened.secret : undefined
}

function startWorkers(services: Services, mayClaim: () => boolean): () => Promise<void> {
  const { database, config, log, metrics } = services
  const workers: Worker[] = []
  const sandboxWorkers = new Map<string, Worker>()
  const addWorker = (handlers: JobHandler[], { slots = config.workerSlots, firstJobSlots = 0 } = {}): Worker => {
    const worker = startWorker({ database, handlers, log, mayClaim, ...toWorkerLimits(config), slots, firstJobSlots })
    workers.push(worker)
    return worker
  }
  // A few workspaces may take all slots. Others then have slots for one job each.
  const generationSlots = GENERATION_SLOTS_FACTOR * config.workerSlots
  addWorker(serviceJobs(services), { firstJobSlots: config.workerSlots })
  addWorker(generationJobs(services), { slots: generationSlots, firstJobSlots: generationSlots })
  addWorker(deliveryJobs(services), { slots: DELIVERY_SLOTS })
  // Trials have separate workers, so that trials that take hours do not delay a submission. A sandbox's worker runs only
  // while the sandbox is available; otherwise other processes run its trials.
  const capabilities = reportCapabilities({ db: database.db, log }, services.sandboxes, (name, available) => {
    if (available)
      sandboxWorkers.set(
        name,
        addWorker(sandboxJobs(services, name), { firstJobSlots: Math.ceil(config.workerSlots / 4) }),
      )
    else void sandboxWorkers.get(name)?.stop(GRACE_MS)
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

/**
 * Slots for batches, as a multiple of `ASSAY_WORKER_SLOTS`. `limitGeneration` limits each workspace to `ASSAY_WORKER_SLOTS`
 * of them, so that servers that never answer delay only its own batches.
 */
const GENERATION_SLOTS_FACTOR = 4

/** Slots for webhook deliveries. A delivery only waits for its receiver, for at most 15 s. */
const DELIVERY_SLOTS = 64

const toWorkerLimits = ({ workerMemoryMb, workerStartsPerSecond }: Config) => ({
  memoryMb: workerMemoryMb,
  groupMemoryShare: findMemoryShare,
  startsPerSecond: workerStartsPerSecond,
})

/** Serves health and metrics of a process that only runs jobs, if a port is set for them. */
async function startWorkerHealth(services: Services, undo: AsyncDisposableStack): Promise<string | undefined> {
  const { host, workPort } = services.config
  if (workPort === undefined) return
  const listening = await listen(createWorkerApp(services).handle, host, workPort)
  undo.defer(() => listening.stop(GRACE_MS))
  return listening.url
}

/**
 * Starts the API. Called last, so that it stops first and no requests arrive while the workers and the database stop.
 */
async function startApi(services: Services, undo: AsyncDisposableStack): Promise<string> {
  const { config } = services
  const listening = await listen(createApp(services).handle, config.host, config.port)
  undo.defer(listenForChanges(services.database.url, services.results).close)
  undo.defer(() => listening.stop(GRACE_MS))
  services.setListeningUrl(listening.url)
  undo.defer(refreshBuild(services.log))
  return services.baseUrl()
}

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createSandboxValidator, type Validator } from './batches/validate.ts'
import type { TestableSandbox } from './catalog/capabilities.ts'
import { createModelTrustLookup, listCustomProviders } from './catalog/custom-models.ts'
import { type SandboxChoice, sandboxChoices, toEngineCapability } from './catalog/sandboxes.ts'
import { type ComparisonEvents, createComparisonEvents } from './comparisons/events.ts'
import type { OnStep } from './comparisons/state.ts'
import { createStatisticsCache, type StatisticsCache } from './comparisons/statistics/statistics.ts'
import type { TrialEngine } from './comparisons/trials/engine.ts'
import { createSandboxEngine } from './comparisons/trials/sandbox-engine.ts'
import { listAdoptableSandboxes } from './comparisons/trials/trial.ts'
import type { Config } from './config.ts'
import { hasStoredCredential } from './credentials/credentials.ts'
import { type Keyring, openKeyring } from './credentials/master-key.ts'
import type { Ledger } from './gateway/ledger.ts'
import { createStoredLedger } from './gateway/stored-ledger.ts'
import { openRegistries } from './harbor/registries/open-registries.ts'
import type { Registry } from './harbor/registries/registry.ts'
import { bundlesFolder } from './harnesses/bundles/bundle.ts'
import type { Blobs } from './platform/blobs/blob.ts'
import { openBlobs } from './platform/blobs/blobs.ts'
import type { Database, Db } from './platform/db/db.ts'
import type { Log } from './platform/log.ts'
import { createMetrics, type Metrics } from './platform/metrics.ts'
import { createOutbound, type Outbound } from './platform/outbound/outbound.ts'
import { createTracer, noTracer, type Tracer } from './platform/tracing.ts'
import { type CodeHost, createGithubHost } from './repos/github.ts'
import { createResultsCache, type ResultsCache } from './results/cache.ts'
import { reapScratchFolders } from './sandboxes/kernel/ownership.ts'
import type { SandboxProvider } from './sandboxes/sandbox.ts'
import { openSandboxProviders, type SandboxProviders } from './sandboxes/sandboxes.ts'
import type { OnBatchStep, Stages } from './taskgen/pipeline/stage.ts'
import { deferWhileBusy, realStages } from './taskgen/pipeline/stages/stages.ts'

/** The services that every role works with, opened once per process. */
export type Services = {
  config: Config
  database: Database
  log: Log
  metrics: Metrics
  /** Sends traces if a collector is configured. */
  tracer: Tracer
  blobs: Blobs
  /** Undefined when credential storage is off. */
  keyring: Keyring | undefined
  outbound: Outbound
  registry: Registry
  events: ComparisonEvents
  statistics: StatisticsCache
  /** Grants and calls, shared with the gateway through the database. */
  ledger: Ledger
  credentials: ReturnType<typeof toCredentialDeps>
  /** Cache of public results. */
  results: ResultsCache
  engine: TrialEngine
  /** Validates imported tasks. */
  validate: Validator
  /** Stages that turn a pull request into a task. */
  stages: Stages
  findProvider: SandboxProviders['find']
  codeHost: CodeHost
  /** Sandboxes that this process may run trials in. */
  sandboxes: readonly TestableSandbox[]
  /** Folder of trial output that is not stored yet. */
  trialsFolder: string
  waits: WaitingTimes
  /** Test hook, called between the writes of a submission or a trial. */
  step?: OnStep | undefined
  /** Test hook, called between the writes of a batch. */
  batchStep?: OnBatchStep | undefined
  /** Address of the gateway for workers, if known. */
  gatewayUrl: () => string | undefined
  /** Called once the gateway of this process is listening. */
  setGatewayUrl: (url: string) => void
  /** Public base URL of this service. */
  baseUrl: () => string
  /** Called once the service is listening and its address is known. */
  setListeningUrl: (url: string) => void
}

type WaitingTimes = {
  /** Maximum time that a submission waits for a worker with its sandbox. */
  workerMs: number
  /** Time before a failed trial is retried. */
  retryMs: number
  /** Time after which a batch looks again for a worker with its sandbox. */
  sandboxMs: number
  /** Maximum time for the receiver of a webhook to respond. Default: that of `deliverJob`. */
  webhookMs?: number
  /** Maximum time for a request body to arrive. Default: 30 s. */
  bodyMs?: number
}

/** Opens the services of one process. Needs a migrated database. */
export async function openServices(config: Config, database: Database, log: Log): Promise<Services> {
  const outbound = createOutbound()
  let gatewayUrl = config.gateway.url
  let listeningUrl = `http://${config.host}:${config.port}`
  const blobs = openBlobs(config.blobs, join(config.dataFolder, 'spool'))
  const keyring = config.credentialStorage ? await openKeyring({ db: database.db, ...config }) : undefined
  const trialsFolder = join(config.dataFolder, 'trials')
  await mkdir(trialsFolder, { recursive: true, mode: 0o700 })
  const providers = openProviders(config, log)
  const statistics = createStatisticsCache()
  const credentials = toCredentialDeps({ database, keyring, config, outbound })
  return {
    config,
    database,
    log,
    metrics: createMetrics(),
    tracer: config.tracing ? createTracer(config.tracing, log) : noTracer,
    blobs,
    keyring,
    outbound,
    registry: openRegistries(config.registries, { outbound, scratch: join(config.dataFolder, 'scratch'), log }),
    events: createComparisonEvents(database.db, statistics),
    statistics,
    results: createResultsCache(),
    ledger: createStoredLedger(database.db),
    credentials,
    engine: createSandboxEngine({
      credentials,
      blobs,
      folder: trialsFolder,
      bundles: bundlesFolder(config.dataFolder),
      findProvider: providers.find,
      unreachableMaxMs: config.sandboxPatienceMs,
    }),
    validate: createSandboxValidator((name) => providers.find(name)),
    stages: deferWhileBusy(realStages()),
    findProvider: providers.find,
    codeHost: createGithubHost({ outbound, baseUrl: config.upstreams.github }),
    sandboxes: [
      ...[...providers.own].map(([sandbox, provider]) => ({
        sandbox,
        test: createSelfTest(provider, database.db, trialsFolder),
      })),
      ...listEngineCapabilities(database.db, providers),
    ],
    trialsFolder,
    waits: { workerMs: 20_000, retryMs: 5_000, sandboxMs: 15_000 },
    gatewayUrl: () => gatewayUrl,
    setGatewayUrl: (url) => {
      gatewayUrl ??= url
    },
    baseUrl: () => config.baseUrl ?? listeningUrl,
    setListeningUrl: (url) => {
      listeningUrl = url
    },
  }
}

/** Interval at which leftovers are removed: workers on other machines may have died. */
const REAP_MS = 5 * 60_000

/** Creates the self-test of a provider. It removes leftovers of dead workers when it starts to pass, and every `REAP_MS`. */
function createSelfTest(provider: SandboxProvider, db: Db, trialsFolder: string): () => Promise<{ isolation: string }> {
  let reapedAt = Number.NEGATIVE_INFINITY
  return async () => {
    const lastReap = reapedAt
    // Stays at this value if the test or the removal throws, so that the next test that passes removes leftovers.
    reapedAt = Number.NEGATIVE_INFINITY
    const capabilities = await provider.selfTest()
    const isDue = performance.now() - lastReap > REAP_MS
    if (isDue) {
      await provider.reap(await listAdoptableSandboxes(db))
      await reapScratchFolders(trialsFolder)
    }
    reapedAt = isDue ? performance.now() : lastReap
    return capabilities
  }
}

/**
 * Lists the sandboxes that this process can use on engines of stored credentials. A sandbox is listed if any workspace has
 * a credential for it. The trials that use the credential test the engine.
 */
const listEngineCapabilities = (db: Db, { own }: SandboxProviders): TestableSandbox[] =>
  sandboxChoices
    .filter(({ id, hasEngines }) => hasEngines && own.has(id))
    .map(({ id, provider }) => ({
      sandbox: toEngineCapability(id),
      test: async () => {
        if (!(await hasStoredCredential(db, 'sandbox', provider))) throw new Error('No workspace has stored an engine.')
        return { isolation: id }
      },
    }))

/**
 * Opens the providers of the sandboxes that `ASSAY_SANDBOXES` lists. Default: all for which the configuration
 * suffices.
 */
function openProviders(config: Config, log: Log): SandboxProviders {
  const isEnabled = ({ id, requiredConfig: field }: SandboxChoice): boolean =>
    config.sandboxes?.includes(id) ?? (field === null || config[field] !== undefined)
  const ids = sandboxChoices.filter(isEnabled).map(({ id }) => id)
  return openSandboxProviders(ids, { ...config, log })
}

export const toCredentialDeps = ({
  database,
  keyring,
  config,
  outbound,
}: Pick<Services, 'database' | 'keyring' | 'config' | 'outbound'>) => ({
  db: database.db,
  keyring,
  environment: config.environment,
  upstreams: config.upstreams,
  outbound,
  ...toCustomProviderDeps(config),
})

function toCustomProviderDeps({ modelNetworks }: Config) {
  const findModelTrust = createModelTrustLookup(modelNetworks)
  return {
    findModelTrust,
    customProviders: async (tx: Db, workspaceId: string) =>
      listCustomProviders(tx, workspaceId, await findModelTrust(tx, workspaceId)),
  }
}

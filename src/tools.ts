import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { sandboxValidator, type Validator } from './batches/validator.ts'
import { customProviders } from './catalog/custom-models.ts'
import type { Testable } from './catalog/offers.ts'
import { sandboxChoices } from './catalog/sandboxes.ts'
import { type ComparisonEvents, createComparisonEvents } from './comparisons/events.ts'
import type { OnStep } from './comparisons/steps.ts'
import type { TrialEngine } from './comparisons/trials/engine.ts'
import { createSandboxEngine } from './comparisons/trials/sandbox-engine.ts'
import type { Config } from './config.ts'
import { type Keyring, openKeyring } from './credentials/master-key.ts'
import type { Ledger } from './gateway/ledger.ts'
import { storedLedger } from './gateway/stored-ledger.ts'
import { openRegistries } from './harbor/registries/open-registries.ts'
import type { Registry } from './harbor/registries/registry.ts'
import { bundlesFolder } from './harnesses/bundles/bundle.ts'
import type { Blobs } from './platform/blobs/blob.ts'
import { openBlobs } from './platform/blobs/blobs.ts'
import type { Database } from './platform/db/db.ts'
import type { Log } from './platform/log.ts'
import { createMetrics, type Metrics } from './platform/metrics.ts'
import { createOutbound, type Outbound } from './platform/outbound/outbound.ts'
import type { CodeHost } from './repos/code-host.ts'
import { createGithubHost } from './repos/github.ts'
import { createResultsCache, type ResultsCache } from './results/cache.ts'
import type { SandboxProvider } from './sandboxes/sandbox.ts'
import { findProvider } from './sandboxes/sandboxes.ts'
import type { Stages } from './taskgen/pipeline/stage.ts'
import { realStages } from './taskgen/pipeline/stages/stages.ts'
import type { OnBatchStep } from './taskgen/pipeline/steps.ts'
import { reapScratch } from './trials/scratch.ts'

export type Tools = {
  config: Config
  database: Database
  log: Log
  metrics: Metrics
  blobs: Blobs
  /** Absent where credential storage is off. */
  keyring: Keyring | undefined
  outbound: Outbound
  registry: Registry
  events: ComparisonEvents
  /** Grants and calls. Shared with the gateway, wherever that is. */
  ledger: Ledger
  credentials: ReturnType<typeof credentialTools>
  /** What everybody reads, made before. */
  results: ResultsCache
  engine: TrialEngine
  /** Finds out whether a task that was imported works. */
  validate: Validator
  /** What a pull request goes through until it is a task. */
  stages: Stages
  findProvider: (sandbox: string) => SandboxProvider | undefined
  codeHost: CodeHost
  /** What this process could run trials in. */
  sandboxes: readonly Testable[]
  /** Where trials leave what is not kept yet. */
  trialsFolder: string
  /**
   * How long a submission waits for a sandbox that nobody offers yet, a spoiled trial for its next attempt, and a message
   * for its receiver; and how long a request's body may take to arrive.
   */
  waits: { offerMs: number; retryMs: number; sandboxMs: number; webhookMs?: number; bodyMs?: number }
  /** Heard between every two writes of a submission or a trial. */
  step?: OnStep
  /** The same for a batch that is made. */
  batchStep?: OnBatchStep
  /** Where workers find the gateway. Undefined: nobody has said. */
  gatewayUrl: () => string | undefined
  /** Told once the gateway of this process listens. */
  gatewayAt: (url: string) => void
  /** As others see this service. */
  baseUrl: () => string
  /** Told once the service listens, which is when its own address is known. */
  listensAt: (url: string) => void
}

export async function openTools(config: Config, database: Database, log: Log): Promise<Tools> {
  const outbound = createOutbound()
  let gatewayUrl = config.gateway.url
  let listeningUrl = `http://${config.host}:${config.port}`
  const blobs = openBlobs(config.blobs, join(config.dataFolder, 'spool'))
  const keyring = config.credentialStorage ? await openKeyring({ db: database.db, ...config }) : undefined
  const trialsFolder = join(config.dataFolder, 'trials')
  await mkdir(trialsFolder, { recursive: true, mode: 0o700 })
  const providers = openProviders(config, log)
  const credentials = credentialTools({ database, keyring, config, outbound })
  return {
    config,
    database,
    log,
    metrics: createMetrics(),
    blobs,
    keyring,
    outbound,
    registry: openRegistries(config.registries, { outbound, scratch: join(config.dataFolder, 'scratch'), log }),
    events: createComparisonEvents(database.db),
    results: createResultsCache(),
    ledger: storedLedger(database.db),
    credentials,
    engine: createSandboxEngine({
      ...{ credentials, blobs, folder: trialsFolder, bundles: bundlesFolder(config.dataFolder) },
      findProvider: (name) => providers.get(name),
    }),
    validate: sandboxValidator((name) => providers.get(name)),
    stages: realStages(),
    findProvider: (name) => providers.get(name),
    codeHost: createGithubHost({ outbound, baseUrl: config.upstreams.github }),
    sandboxes: [...providers].map(([sandbox, provider]) => ({ sandbox, test: tester(provider, trialsFolder) })),
    trialsFolder,
    waits: { offerMs: 20_000, retryMs: 5_000, sandboxMs: 15_000 },
    gatewayUrl: () => gatewayUrl,
    gatewayAt: (url) => {
      gatewayUrl ??= url
    },
    baseUrl: () => config.baseUrl ?? listeningUrl,
    listensAt: (url) => {
      listeningUrl = url
    },
  }
}

/** Whenever it begins to work, it is rid of what workers that died have left. */
function tester(provider: SandboxProvider, trialsFolder: string): () => Promise<{ isolation: string }> {
  let works = false
  return async () => {
    const before = works
    works = false
    const capabilities = await provider.selfTest()
    if (!before) {
      await provider.reap()
      await reapScratch(trialsFolder)
    }
    works = true
    return capabilities
  }
}

/** One of each for the whole process: what it builds, it builds once. */
const openProviders = (config: Config, log: Log): Map<string, SandboxProvider> =>
  new Map(
    sandboxChoices.flatMap(({ id }) => {
      if (config.sandboxes && !config.sandboxes.includes(id)) return []
      const provider = findProvider(id, { ...config, log })
      return provider ? [[id, provider] as const] : []
    }),
  )

export const credentialTools = ({
  database,
  keyring,
  config,
  outbound,
}: Pick<Tools, 'database' | 'keyring' | 'config' | 'outbound'>) => ({
  ...{ db: database.db, keyring, environment: config.environment, upstreams: config.upstreams, outbound },
  customProviders,
})

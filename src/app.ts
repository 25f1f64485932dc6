import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import about from '../package.json' with { type: 'json' }
import { sweepArchives } from './batches/archives.ts'
import { hasOpenBatches } from './batches/batches.ts'
import { importJob } from './batches/import.ts'
import { batchRoutes } from './batches/routes.ts'
import { validateJob } from './batches/validate.ts'
import { sandboxValidator, type Validator } from './batches/validator.ts'
import { calibrateJob } from './benchmarks/calibrate.ts'
import { benchmarkRoutes } from './benchmarks/routes.ts'
import { harnessRoutes } from './catalog/custom-harnesses/routes.ts'
import { customProviders } from './catalog/custom-models.ts'
import type { Testable } from './catalog/offers.ts'
import { modelRoutes } from './catalog/routes.ts'
import { sandboxChoices } from './catalog/sandboxes.ts'
import { hasOpenComparisons, isHarnessInUse, isModelInUse } from './comparisons/comparisons.ts'
import { type ComparisonEvents, comparisonEvents } from './comparisons/events.ts'
import { comparisonRoutes } from './comparisons/routes.ts'
import { endAllDone } from './comparisons/state.ts'
import type { OnStep } from './comparisons/steps.ts'
import { submitJob } from './comparisons/submit.ts'
import { sweepArtifacts, sweepOutput } from './comparisons/trials/artifacts.ts'
import type { Engine } from './comparisons/trials/engine.ts'
import { sandboxEngine } from './comparisons/trials/sandbox-engine.ts'
import { countLeft } from './comparisons/trials/spend.ts'
import { trialJob } from './comparisons/trials/trial.ts'
import type { Config } from './config.ts'
import { sweepContents } from './contents/contents.ts'
import { sweepDrafts } from './contents/drafts.ts'
import { type Keyring, openKeyring } from './credentials/master-key.ts'
import { credentialRoutes } from './credentials/routes.ts'
import { openNewestSecret } from './credentials/secrets.ts'
import type { Ledger } from './gateway/ledger.ts'
import { storedLedger } from './gateway/stored-ledger.ts'
import { sweepBodies } from './gateway/sweep.ts'
import { openRegistries } from './harbor/registries/open-registries.ts'
import type { Registry } from './harbor/registries/registry.ts'
import { bundlesFolder } from './harnesses/bundles/bundle.ts'
import { blobsCheck, databaseCheck, masterKeyCheck, migrationsCheck, workersCheck } from './operate/service-checks.ts'
import { type Blobs, openBlobs } from './platform/blobs/blobs.ts'
import { sweep } from './platform/blobs/spool.ts'
import type { Database, Db } from './platform/db/db.ts'
import { type Check, examine } from './platform/health.ts'
import { forgetOldKeys } from './platform/http/idempotency.ts'
import { addMeta } from './platform/http/meta.ts'
import type { EndpointGroup } from './platform/http/openapi.ts'
import type { Route } from './platform/http/route.ts'
import { createHttp, type Http } from './platform/http/server.ts'
import { statusesOf } from './platform/http/statuses.ts'
import type { RunnableKind } from './platform/jobs/jobs.ts'
import type { Log } from './platform/log.ts'
import { createMetrics, type Metrics } from './platform/metrics.ts'
import { createOutbound, type Outbound } from './platform/outbound/outbound.ts'
import type { ProblemKind } from './platform/problem.ts'
import { releaseRoutes } from './releases/routes.ts'
import type { CodeHost } from './repos/code-host.ts'
import { githubHost } from './repos/github.ts'
import { repositoryRoutes } from './repos/routes.ts'
import { type ResultsCache, resultsCache } from './results/cache.ts'
import { resultRoutes } from './results/routes.ts'
import { show } from './results/show.ts'
import type { Provider } from './sandboxes/sandbox.ts'
import { findProvider } from './sandboxes/sandboxes.ts'
import { reapScratch } from './trials/scratch.ts'
import { authenticator } from './workspaces/authenticate.ts'
import { workspaceRoutes } from './workspaces/routes.ts'
import { endExpiredSessions } from './workspaces/sessions.ts'

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
  engine: Engine
  /** Finds out whether a task that was imported works. */
  validate: Validator
  codeHost: CodeHost
  /** What this process could run trials in. */
  sandboxes: readonly Testable[]
  /** Where trials leave what is not kept yet. */
  trialsFolder: string
  /** How long a submission waits for a sandbox that nobody offers yet, and a spoiled trial for its next attempt. */
  waits: { offerMs: number; retryMs: number; sandboxMs: number }
  /** Heard between every two writes of a submission or a trial. */
  step?: OnStep
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
    registry: openRegistries(config.registries, { outbound, scratch: join(config.dataFolder, 'scratch') }),
    events: comparisonEvents(database.db),
    results: resultsCache(),
    ledger: storedLedger(database.db),
    credentials,
    engine: sandboxEngine({
      ...{ credentials, blobs, folder: trialsFolder, bundles: bundlesFolder(config.dataFolder) },
      findProvider: (name) => providers.get(name),
    }),
    validate: sandboxValidator((name) => providers.get(name)),
    codeHost: githubHost({ outbound, baseUrl: config.upstreams.github }),
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
function tester(provider: Provider, trialsFolder: string): () => Promise<{ isolation: string }> {
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
const openProviders = (config: Config, log: Log): Map<string, Provider> =>
  new Map(
    sandboxChoices.flatMap(({ id }) => {
      if (config.sandboxes && !config.sandboxes.includes(id)) return []
      const provider = findProvider(id, { ...config, log })
      return provider ? [[id, provider] as const] : []
    }),
  )

/** Every route of the service, under the headings of the reference: the table of contents. */
export const routeGroups = (tools: Tools): { name: string; routes: Route[] }[] => [
  {
    name: 'Workspaces',
    routes: workspaceRoutes({
      credentialStorage: tools.config.credentialStorage,
      secureCookies: tools.baseUrl().startsWith('https:'),
      checkHealth: () => examine(healthChecks(tools)),
    }),
  },
  { name: 'Credentials', routes: credentialRoutes(credentialTools(tools)) },
  { name: 'Models', routes: modelRoutes({ isModelInUse }) },
  { name: 'Harnesses', routes: harnessRoutes({ isHarnessInUse }) },
  { name: 'Repositories', routes: repositoryRoutes(repositoryTools(tools)) },
  { name: 'Batches', routes: batchRoutes({ ...repositoryTools(tools), blobs: tools.blobs }) },
  { name: 'Benchmarks', routes: benchmarkRoutes(benchmarkTools(tools)) },
  {
    name: 'Comparisons',
    routes: comparisonRoutes({ ...repositoryTools(tools), blobs: tools.blobs, events: tools.events }),
  },
  { name: 'Releases', routes: releaseRoutes(releaseTools(tools)) },
  {
    name: 'Public results',
    routes: resultRoutes({
      ...{ blobs: tools.blobs, cache: tools.results },
      publicUrl: () => tools.config.publicUrl ?? tools.baseUrl(),
    }),
  },
]

const credentialTools = ({
  database,
  keyring,
  config,
  outbound,
}: Pick<Tools, 'database' | 'keyring' | 'config' | 'outbound'>) => ({
  ...{ db: database.db, keyring, environment: config.environment, upstreams: config.upstreams, outbound },
  customProviders,
})

const repositoryTools = (tools: Tools) => ({
  ...credentialTools(tools),
  codeHost: tools.codeHost,
  gitAllow: tools.config.gitAllow,
  isBusy: async (db: Db, key: number) => (await hasOpenBatches(db, key)) || (await hasOpenComparisons(db, key)),
})

const releaseTools = (tools: Tools) => ({
  ...repositoryTools(tools),
  ...{ blobs: tools.blobs, publicOwners: tools.config.publicOwners, show, forget: tools.results.forget },
})

export const benchmarkTools = (tools: Tools) => ({
  db: tools.database.db,
  blobs: tools.blobs,
  registry: tools.registry,
  draftsFolder: draftsFolder(tools),
  registryKey: async (workspaceId: string) => {
    const opened = await openNewestSecret(credentialTools(tools), workspaceId, HARBOR)
    return opened?.secret.apiKey
  },
})

const HARBOR = { kind: 'registry', provider: 'harbor' } as const

const draftsFolder = ({ config }: Tools): string => join(config.dataFolder, 'drafts')
const uploadsFolder = ({ config }: Tools): string => join(config.dataFolder, 'uploads')

export function createApp(tools: Tools): Http {
  const groups = routeGroups(tools)
  const http = createHttp(
    {
      db: tools.database.db,
      log: tools.log,
      authenticate: authenticator({ db: tools.database.db, operatorKey: tools.config.operatorKey }),
      baseUrl: tools.baseUrl,
      limit: tools.config.rateLimit === undefined ? undefined : { requests: tools.config.rateLimit, seconds: 60 },
      signInLimit: { requests: 20, seconds: 60 },
      uploadsFolder: uploadsFolder(tools),
      observe: tools.metrics.observeRequest,
    },
    groups.flatMap((group) => group.routes),
  )
  addMeta(http, {
    version: about.version,
    baseUrl: tools.baseUrl,
    metrics: tools.metrics,
    ready: () => examine(readinessChecks(tools)),
    groups: endpointGroups(groups),
    problems: problemsOf(endpointGroups(groups)),
  })
  return http
}

export const endpointGroups = (groups: { name: string; routes: Route[] }[]): EndpointGroup[] =>
  groups.map(({ name, routes }) => ({ name, endpoints: routes.map((route) => route.endpoint) }))

const problemsOf = (groups: EndpointGroup[]): ProblemKind[] => {
  const kinds = groups
    .flatMap((group) => group.endpoints)
    .flatMap((endpoint) => [...statusesOf(endpoint).values()])
    .flatMap((status) => status.problems)
  return [...new Map(kinds.map((kind) => [kind.code, kind])).values()].sort((a, b) => a.status - b.status)
}

/** Every kind of background work. */
export const jobKinds = (tools: Tools): RunnableKind[] => [
  {
    kind: 'expiry.sweep',
    payload: z.strictObject({}),
    everySeconds: 3600,
    run: async () => {
      await endExpiredSessions(tools.database.db)
      await forgetOldKeys(tools.database.db)
    },
  },
  {
    kind: 'contents.sweep',
    payload: z.strictObject({}),
    everySeconds: 3600,
    run: async () => {
      await sweepContents({ db: tools.database.db, blobs: tools.blobs })
      await sweepDrafts(draftsFolder(tools))
      await sweepOutput(tools.trialsFolder)
      await sweep(uploadsFolder(tools))
      await sweepArchives({ db: tools.database.db, blobs: tools.blobs })
      await sweepArtifacts({ db: tools.database.db, blobs: tools.blobs }, tools.config.artifactDays)
      await sweepBodies({ db: tools.database.db, blobs: tools.blobs }, tools.config.artifactDays)
    },
  },
  {
    kind: 'comparisons.end',
    payload: z.strictObject({}),
    everySeconds: 30,
    run: async () => {
      await countLeft(tools.database.db)
      await endAllDone(tools.database.db)
    },
  },
  importJob({
    db: tools.database.db,
    blobs: tools.blobs,
    draftsFolder: draftsFolder(tools),
    sandboxWaitMs: tools.waits.sandboxMs,
  }),
  submitJob({ ...benchmarkTools(tools), offerWaitMs: tools.waits.offerMs, ...stepOf(tools) }),
]

/** What runs in one sandbox: only a worker that offers it does. */
export const trialKinds = (tools: Tools, sandbox: string): RunnableKind[] => [
  trialJob(
    {
      db: tools.database.db,
      blobs: tools.blobs,
      ledger: tools.ledger,
      gatewayUrl: tools.gatewayUrl,
      engine: tools.engine,
      folder: tools.trialsFolder,
      retryMs: tools.waits.retryMs,
      ...stepOf(tools),
    },
    sandbox,
  ),
  validateJob({ ...tryingTools(tools), sandboxWaitMs: tools.waits.sandboxMs }, sandbox),
  calibrateJob(tryingTools(tools), sandbox),
]

const tryingTools = ({ database, blobs, validate, trialsFolder }: Tools) => ({
  ...{ db: database.db, blobs, validate, folder: trialsFolder },
})

const stepOf = ({ step }: Tools): Pick<Tools, 'step'> => (step ? { step } : {})

/** Without these no request can be answered. */
const readinessChecks = ({ database }: Tools): Check[] => [databaseCheck(database), migrationsCheck(database)]

/** And without these some work cannot be done. */
const healthChecks = (tools: Tools): Check[] => [
  ...readinessChecks(tools),
  masterKeyCheck(tools.database, tools.config),
  blobsCheck(tools.blobs),
  workersCheck(tools.database),
]

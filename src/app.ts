import { join } from 'node:path'
import about from '../package.json' with { type: 'json' }
import { hasOpenBatches } from './batches/batches.ts'
import { importJob, sweepArchives } from './batches/import.ts'
import { batchRoutes } from './batches/routes.ts'
import { validateJob } from './batches/validate.ts'
import { calibrateJob } from './benchmarks/calibrate.ts'
import { benchmarkRoutes } from './benchmarks/routes.ts'
import { deleteUnusedBundles } from './catalog/harnesses.ts'
import { harnessRoutes, modelRoutes } from './catalog/routes.ts'
import { isEngineCapability } from './catalog/sandboxes.ts'
import { hasOpenComparisons, isHarnessInUse, isModelInUse } from './comparisons/comparisons.ts'
import { comparisonRoutes } from './comparisons/routes.ts'
import { completeAllDone } from './comparisons/state.ts'
import { submitJob } from './comparisons/submit.ts'
import { sweepArtifacts, sweepOutput } from './comparisons/trials/artifacts.ts'
import { countLateSpend } from './comparisons/trials/spend.ts'
import { trialJob } from './comparisons/trials/trial.ts'
import { configurationRoutes } from './configurations/routes.ts'
import { sweepContents, sweepDrafts } from './contents/contents.ts'
import { credentialRoutes } from './credentials/routes.ts'
import { openNewestSecret } from './credentials/secrets.ts'
import { sweepCallBodies } from './gateway/call-bodies.ts'
import { gatewayRoutes } from './gateway/routes.ts'
import { bundlesFolder } from './harnesses/bundles/bundle.ts'
import { sweepUploaded } from './harnesses/bundles/install.ts'
import {
  blobsCheck,
  checkWorkspace,
  HEARTBEAT_AGE_MAX_SECONDS,
  readinessChecks,
  runChecks,
  workersCheck,
} from './operate/service-checks.ts'
import { deleteStaleSpools } from './platform/blobs/spool.ts'
import { shareRuns } from './platform/concurrency.ts'
import { readDisk } from './platform/data-folder.ts'
import type { Db } from './platform/db/db.ts'
import { createClientAddressReader } from './platform/http/client-address.ts'
import { deleteExpiredIdempotencyKeys } from './platform/http/idempotency.ts'
import { addHealthRoutes, addMetaRoutes, type HealthRouteDeps } from './platform/http/meta.ts'
import { type EndpointGroup, listProblems } from './platform/http/openapi.ts'
import type { Route } from './platform/http/route.ts'
import { createHttp, type Http } from './platform/http/server.ts'
import { defineRecurringJob, type JobHandler, listLiveWorkers } from './platform/jobs/jobs.ts'
import { internalError, methodNotAllowed, requestTimeout, unavailable } from './platform/problem.ts'
import {
  applyVisibility,
  checkVisibility,
  findPublicReleaseId,
  hasReleases,
  withdrawPublicRelease,
} from './releases/releases.ts'
import { releaseRoutes } from './releases/routes.ts'
import { repositoryRoutes } from './repos/routes.ts'
import { updateResults } from './results/results.ts'
import { createCachedAnswers, resultRoutes } from './results/routes.ts'
import type { Services } from './services.ts'
import { createProblemPages, previewPageRoute, type SiteDeps, siteReads, siteRoutes } from './site/routes.ts'
import { resultsWithdrawn } from './site/schema.ts'
import { isModelInUse as isModelInUseByBatch } from './taskgen/pipeline/enqueue.ts'
import { pipelineJobs, stageJob } from './taskgen/pipeline/stage-job.ts'
import { deliverJob, sweepDeliveries } from './webhooks/deliver.ts'
import { webhookRoutes } from './webhooks/routes.ts'
import { workspaceAppRoutes } from './workspace-app/routes.ts'
import { appNotBuilt } from './workspace-app/schema.ts'
import type { AuditActor } from './workspaces/audit.ts'
import { createAuthenticator, createOperatorKeyTest, deleteExpiredSessions } from './workspaces/authenticate.ts'
import { workspaceRoutes } from './workspaces/routes.ts'

/** Headings of the API reference. */
const GROUP_DESCRIPTIONS = {
  Workspaces: 'Workspaces, API keys, browser sessions and the audit log.',
  Credentials: 'API keys of model providers, sandboxes, registries and code hosts. Secrets can be written, never read.',
  Models: 'Models that the workspace adds to the catalog.',
  Harnesses: 'Harnesses that the workspace adds to the catalog, and their programs.',
  Configurations: 'Agent configurations: files, rules, skills and MCP servers. A version never changes.',
  Gateway: 'Settings of model calls, and their stored bodies.',
  Repositories: 'Repositories that tasks are about.',
  Batches: 'Tasks of a repository: created from merged pull requests or imported, reviewed and approved.',
  Benchmarks: 'Datasets of tasks that the workspace has added.',
  Comparisons:
    'Comparisons of settings on a benchmark or on approved tasks of a repository, with their trials and statistics.',
  Releases: 'Published results of a repository: preview, publish, withdraw, endorse.',
  Webhooks: 'Addresses that receive events of the workspace, and the deliveries.',
  'Public results': 'Published results, for everybody, without a key.',
} as const

type RouteGroup = { name: keyof typeof GROUP_DESCRIPTIONS; routes: Route[] }

/** Lists every route of the service, under the headings of the API reference. */
export const routeGroups = (services: Services): RouteGroup[] => [
  {
    name: 'Workspaces',
    routes: workspaceRoutes({
      credentialStorage: services.config.credentialStorage,
      secureCookies: services.baseUrl().startsWith('https:'),
      checkHealth: createHealthCheck(services),
      listWorkers: () => listLiveWorkers(services.database.db, HEARTBEAT_AGE_MAX_SECONDS),
      readDisk: () => readDisk(services.config.dataFolder),
    }),
  },
  {
    name: 'Credentials',
    routes: credentialRoutes(services.credentials),
  },
  {
    name: 'Models',
    routes: modelRoutes({ isModelInUse: isModelInUseAnywhere, findModelTrust: services.credentials.findModelTrust }),
  },
  {
    name: 'Harnesses',
    routes: harnessRoutes({ isHarnessInUse, blobs: services.blobs }),
  },
  {
    name: 'Configurations',
    routes: configurationRoutes({ blobs: services.blobs }),
  },
  {
    name: 'Gateway',
    routes: gatewayRoutes({ blobs: services.blobs }),
  },
  {
    name: 'Repositories',
    routes: repositoryRoutes(toRepositoryDeps(services)),
  },
  {
    name: 'Batches',
    routes: batchRoutes(toBatchDeps(services)),
  },
  {
    name: 'Benchmarks',
    routes: benchmarkRoutes(toBenchmarkDeps(services)),
  },
  {
    name: 'Comparisons',
    routes: comparisonRoutes({
      ...toRepositoryDeps(services),
      blobs: services.blobs,
      events: services.events,
      statistics: services.statistics,
    }),
  },
  {
    name: 'Releases',
    routes: [...releaseRoutes(toReleaseDeps(services)), previewPageRoute({ publicUrl: () => publicUrl(services) })],
  },
  {
    name: 'Webhooks',
    routes: webhookRoutes(toWebhookDeps(services)),
  },
  {
    name: 'Public results',
    routes: resultRoutes({
      blobs: services.blobs,
      cache: services.results,
      publicUrl: () => publicUrl(services),
    }),
  },
]

const toRepositoryDeps = (services: Services) => ({
  ...services.credentials,
  codeHost: services.codeHost,
  gitAllow: services.config.gitAllow,
  isBusy: async (db: Db, key: number) => (await hasOpenBatches(db, key)) || (await hasOpenComparisons(db, key)),
  findPublicReleaseId,
  hasReleases,
  withdrawPublicRelease: (tx: Db, by: AuditActor, repository: number, reason: string) =>
    withdrawPublicRelease({ updateResults }, tx, { by, repository, reason }),
  applyVisibility: (tx: Db, by: AuditActor, repository: number, visibility: 'public' | 'private') =>
    applyVisibility({ updateResults }, tx, { by, repository, visibility }),
  clearResults: services.results.clear,
})

const isModelInUseAnywhere = async (db: Db, workspaceId: string, catalogId: string): Promise<boolean> =>
  (await isModelInUse(db, workspaceId, catalogId)) || (await isModelInUseByBatch(db, workspaceId, catalogId))

/** Repositories are mirrored on each machine that reads them: to find candidates, and to create tasks. */
const toBatchDeps = (services: Services) => ({
  ...toRepositoryDeps(services),
  repositories: {
    ...toRepositoryDeps(services),
    mirrors: { folder: join(services.config.dataFolder, 'mirrors'), log: services.log },
  },
  blobs: services.blobs,
  draftsFolder: draftsFolder(services),
  buildHosts: services.config.buildHosts,
  scratchFolder: services.trialsFolder,
  scansFolder: join(services.config.dataFolder, 'scans'),
})

const toPipelineDeps = (services: Services) => ({
  ...toBatchDeps(services),
  stages: services.stages,
  sandboxWaitMs: services.waits.sandboxMs,
  folder: services.trialsFolder,
  findProvider: services.findProvider,
  ledger: services.ledger,
  gatewayUrl: services.gatewayUrl,
  step: services.batchStep,
})

const toReleaseDeps = (services: Services) => ({
  ...toRepositoryDeps(services),
  blobs: services.blobs,
  publicOwners: services.config.publicOwners,
  updateResults,
  publicUrl: () => publicUrl(services),
})

function toSiteDeps(services: Services): SiteDeps {
  const count = services.metrics.counter('assay_pages_rendered_total', 'Pages that were rendered anew', ['page'])
  return {
    cache: services.results,
    publicUrl: () => publicUrl(services),
    countRendering: (page) => count({ page }),
  }
}

const publicUrl = ({ config, baseUrl }: Services): string => config.publicUrl ?? baseUrl()

export const toBenchmarkDeps = (services: Services) => ({
  db: services.database.db,
  blobs: services.blobs,
  registry: services.registry,
  draftsFolder: draftsFolder(services),
  buildHosts: services.config.buildHosts,
  registryKey: async (workspaceId: string) => {
    const opened = await openNewestSecret(services.credentials, workspaceId, HARBOR_REGISTRY)
    return opened?.secret.apiKey
  },
})

const toWebhookDeps = ({ database, keyring, config }: Services) => ({
  db: database.db,
  keyring,
  webhookTrust: config.webhooksPrivate ? ('operator' as const) : ('client' as const),
})

const HARBOR_REGISTRY = { kind: 'registry', provider: 'harbor' } as const

const draftsFolder = ({ config }: Services): string => join(config.dataFolder, 'drafts')
const uploadsFolder = ({ config }: Services): string => join(config.dataFolder, 'uploads')

export function createApp(services: Services): Http {
  const groups = routeGroups(services)
  const http = createHttp(
    { ...toServerDeps(services), findCached: createCachedAnswers(services.results, siteReads) },
    // Pages are not part of the API, so its reference does not list them.
    [...groups.flatMap((group) => group.routes), ...siteRoutes(toSiteDeps(services)), ...workspaceAppRoutes()],
  )
  addMetaRoutes(http, {
    ...toHealthRouteDeps(services),
    version: about.version,
    groups: endpointGroups(groups),
    problems: listProblems(endpointGroups(groups), COMMON_PROBLEMS),
  })
  return http
}

/** Creates what a worker serves: health and metrics only. */
export function createWorkerApp(services: Services): Http {
  const http = createHttp({ ...toServerDeps(services), findCached: () => undefined }, [])
  addHealthRoutes(http, toHealthRouteDeps(services))
  return http
}

const toServerDeps = (services: Services) => ({
  db: services.database.db,
  log: services.log,
  authenticate: createAuthenticator({ db: services.database.db, operatorKey: services.config.operatorKey }),
  baseUrl: services.baseUrl,
  limit: services.config.rateLimit === undefined ? undefined : { requests: services.config.rateLimit, seconds: 60 },
  signInLimit: { requests: 20, seconds: 60 },
  // The other half of the database connections is left for other workspaces.
  requestsAtOnce: Math.max(1, Math.floor((services.database.pool.options.max ?? 2) / 2)),
  bodyTimeoutMs: services.waits.bodyMs ?? 30_000,
  clientAddress: createClientAddressReader(services.config.trustedProxies),
  uploadsFolder: uploadsFolder(services),
  observe: services.metrics.observeRequest,
  tracer: services.tracer,
  renderProblem: createProblemPages(() => publicUrl(services)),
})

const toHealthRouteDeps = (services: Services): HealthRouteDeps => ({
  baseUrl: services.baseUrl,
  log: services.log,
  metrics: services.metrics,
  isOperatorKey: createOperatorKeyTest(services.config.operatorKey),
  // Anybody may ask, and each check takes a database connection.
  ready: shareRuns(() => runChecks(readinessChecks(services))),
})

export const endpointGroups = (groups: RouteGroup[]): EndpointGroup[] =>
  groups.map(({ name, routes }) => ({
    name,
    description: GROUP_DESCRIPTIONS[name],
    endpoints: routes.map((route) => route.endpoint),
  }))

/** Problems that no endpoint declares, because every request can end with them. */
const COMMON_PROBLEMS = [methodNotAllowed, resultsWithdrawn, requestTimeout, internalError, unavailable, appNotBuilt]

/** Lists the background jobs that need no sandbox and call no server that a workspace chose. */
export const serviceJobs = (services: Services): JobHandler[] => [
  defineRecurringJob('expiry.sweep', 3600, async () => {
    await deleteExpiredSessions(services.database.db)
    await deleteExpiredIdempotencyKeys(services.database.db)
    await sweepDeliveries(services.database.db)
  }),
  defineRecurringJob('contents.sweep', 3600, async () => {
    await sweepContents({ db: services.database.db, blobs: services.blobs })
    await sweepDrafts(draftsFolder(services))
    await sweepOutput(services.trialsFolder)
    await deleteStaleSpools(uploadsFolder(services))
    await sweepArchives({ db: services.database.db, blobs: services.blobs })
    await deleteUnusedBundles({ db: services.database.db, blobs: services.blobs, isHarnessInUse })
    await sweepUploaded(bundlesFolder(services.config.dataFolder))
    await sweepArtifacts({ db: services.database.db, blobs: services.blobs }, services.config.artifactDays)
    await sweepCallBodies({ db: services.database.db, blobs: services.blobs }, services.config.artifactDays)
  }),
  defineRecurringJob('comparisons.end', 30, async () => {
    await countLateSpend(services.database.db)
    await completeAllDone(services.database.db)
  }),
  defineRecurringJob('releases.visibility', 3600, ({ signal }) => checkVisibility(toReleaseDeps(services), signal)),
  importJob({
    db: services.database.db,
    blobs: services.blobs,
    draftsFolder: draftsFolder(services),
    buildHosts: services.config.buildHosts,
    sandboxWaitMs: services.waits.sandboxMs,
  }),
  submitJob({ ...toBenchmarkDeps(services), sandboxWaitMs: services.waits.workerMs, step: services.step }),
]

/** Lists jobs of batches, which call servers that a workspace chose. They have workers of their own. */
export const generationJobs = (services: Services): JobHandler[] => pipelineJobs(toPipelineDeps(services))

/** Lists the jobs that wait for receivers of webhooks. They have workers of their own, so that they delay no other jobs. */
export const deliveryJobs = (services: Services): JobHandler[] => [
  deliverJob({
    ...toWebhookDeps(services),
    outbound: services.outbound,
    version: about.version,
    timeoutMs: services.waits.webhookMs,
  }),
]

/** Lists the jobs that need this sandbox. Only a worker that has the sandbox handles them. */
export const sandboxJobs = (services: Services, sandbox: string): JobHandler[] => [
  trialJob(toTrialDeps(services), sandbox),
  // Only trials use engines of stored credentials.
  ...(isEngineCapability(sandbox) ? [] : taskJobs(services, sandbox)),
]

const toTrialDeps = (services: Services) => ({
  db: services.database.db,
  blobs: services.blobs,
  ledger: services.ledger,
  gatewayUrl: services.gatewayUrl,
  // A gateway of another process continues when this process stops.
  leavesAgents: services.config.gateway.url !== undefined,
  engine: services.engine,
  tracer: services.tracer,
  folder: services.trialsFolder,
  retryMs: services.waits.retryMs,
  artifactBytesMax: services.config.artifactBytesMax,
  step: services.step,
})

const taskJobs = (services: Services, sandbox: string): JobHandler[] => [
  validateJob({ ...toValidatorDeps(services), sandboxWaitMs: services.waits.sandboxMs }, sandbox),
  calibrateJob(toValidatorDeps(services), sandbox),
  stageJob(toPipelineDeps(services), sandbox),
]

const toValidatorDeps = ({ database, blobs, validate, trialsFolder }: Services) => ({
  db: database.db,
  blobs,
  validate,
  folder: trialsFolder,
})

/** Creates the health check of workspaces. Concurrent requests share the checks of the service itself. */
function createHealthCheck(services: Services) {
  const { database, blobs, credentials, log } = services
  const checkService = shareRuns(() =>
    runChecks([...readinessChecks(services), blobsCheck(blobs), workersCheck(database)]),
  )
  const deps = { db: database.db, credentials, log, checkService }
  return (workspaceId: string) => checkWorkspace(deps, workspaceId)
}

import { join } from 'node:path'
import about from '../package.json' with { type: 'json' }
import { sweepArchives } from './batches/archives.ts'
import { hasOpenBatches } from './batches/batches.ts'
import { importJob } from './batches/import.ts'
import { batchRoutes } from './batches/routes.ts'
import { validateJob } from './batches/validate.ts'
import { calibrateJob } from './benchmarks/calibrate.ts'
import { benchmarkRoutes } from './benchmarks/routes.ts'
import { sweepBundles } from './catalog/custom-harnesses/bundles.ts'
import { harnessRoutes } from './catalog/custom-harnesses/routes.ts'
import { modelRoutes } from './catalog/routes.ts'
import { hasOpenComparisons, isHarnessInUse, isModelInUse } from './comparisons/comparisons.ts'
import { comparisonRoutes } from './comparisons/routes.ts'
import { completeAllDone } from './comparisons/state.ts'
import { submitJob } from './comparisons/submit.ts'
import { sweepArtifacts, sweepOutput } from './comparisons/trials/artifacts.ts'
import { countLateSpend } from './comparisons/trials/spend.ts'
import { trialJob } from './comparisons/trials/trial.ts'
import { sweepContents } from './contents/contents.ts'
import { sweepDrafts } from './contents/drafts.ts'
import { credentialRoutes } from './credentials/routes.ts'
import { openNewestSecret } from './credentials/secrets.ts'
import { gatewayRoutes } from './gateway/routes.ts'
import { sweepBodies } from './gateway/sweep.ts'
import { bundlesFolder } from './harnesses/bundles/bundle.ts'
import { sweepUploaded } from './harnesses/bundles/install.ts'
import { blobsCheck, databaseCheck, heldKeyCheck, migrationsCheck, workersCheck } from './operate/service-checks.ts'
import { checkWorkspace } from './operate/workspace-health.ts'
import { deleteStaleSpools } from './platform/blobs/spool.ts'
import type { Db } from './platform/db/db.ts'
import { type HealthCheck, runChecks } from './platform/health.ts'
import { createClientAddressReader } from './platform/http/client-address.ts'
import { deleteExpiredIdempotencyKeys } from './platform/http/idempotency.ts'
import { addMetaRoutes } from './platform/http/meta.ts'
import type { EndpointGroup } from './platform/http/openapi.ts'
import type { Route } from './platform/http/route.ts'
import { createHttp, type Http } from './platform/http/server.ts'
import { listStatuses } from './platform/http/statuses.ts'
import { defineRecurringJob, type JobHandler } from './platform/jobs/jobs.ts'
import { internalError, methodNotAllowed, type ProblemKind, requestTimeout, unavailable } from './platform/problem.ts'
import { checkVisibility } from './releases/check-visibility.ts'
import { findPublicRelease, withdrawPublicRelease } from './releases/releases.ts'
import { releaseRoutes } from './releases/routes.ts'
import { repositoryRoutes } from './repos/routes.ts'
import { createCachedAnswers, resultRoutes } from './results/routes.ts'
import { updateResults } from './results/update-results.ts'
import { pipelineJobs } from './taskgen/pipeline/jobs.ts'
import { stageJob } from './taskgen/pipeline/stage-job.ts'
import { isModelInUse as isModelInUseByBatch } from './taskgen/pipeline/waiting.ts'
import { credentialTools, type Tools } from './tools.ts'
import { deliverJob, sweepDeliveries } from './webhooks/deliver.ts'
import { webhookRoutes } from './webhooks/routes.ts'
import type { By } from './workspaces/audit.ts'
import { authenticator, operatorKeyTest } from './workspaces/authenticate.ts'
import { workspaceRoutes } from './workspaces/routes.ts'
import { endExpiredSessions } from './workspaces/sessions.ts'

/** Every route of the service, under the headings of the reference: the table of contents. */
export const routeGroups = (tools: Tools): { name: string; routes: Route[] }[] => [
  {
    name: 'Workspaces',
    routes: workspaceRoutes({
      credentialStorage: tools.config.credentialStorage,
      secureCookies: tools.baseUrl().startsWith('https:'),
      checkHealth: (workspaceId) => checkWorkspace(healthTools(tools), workspaceId),
    }),
  },
  { name: 'Credentials', routes: credentialRoutes(credentialTools(tools)) },
  { name: 'Models', routes: modelRoutes({ isModelInUse: isModelNeeded }) },
  { name: 'Harnesses', routes: harnessRoutes({ isHarnessInUse, blobs: tools.blobs }) },
  { name: 'Gateway', routes: gatewayRoutes({ blobs: tools.blobs }) },
  { name: 'Repositories', routes: repositoryRoutes(repositoryTools(tools)) },
  { name: 'Batches', routes: batchRoutes(batchTools(tools)) },
  { name: 'Benchmarks', routes: benchmarkRoutes(benchmarkTools(tools)) },
  {
    name: 'Comparisons',
    routes: comparisonRoutes({ ...repositoryTools(tools), blobs: tools.blobs, events: tools.events }),
  },
  { name: 'Releases', routes: releaseRoutes(releaseTools(tools)) },
  { name: 'Webhooks', routes: webhookRoutes(webhookTools(tools)) },
  {
    name: 'Public results',
    routes: resultRoutes({
      ...{ blobs: tools.blobs, cache: tools.results },
      publicUrl: () => publicUrl(tools),
    }),
  },
]

const repositoryTools = (tools: Tools) => ({
  ...credentialTools(tools),
  codeHost: tools.codeHost,
  gitAllow: tools.config.gitAllow,
  isBusy: async (db: Db, key: number) => (await hasOpenBatches(db, key)) || (await hasOpenComparisons(db, key)),
  findPublicRelease,
  withdrawPublicRelease: (tx: Db, by: By, repository: number, reason: string) =>
    withdrawPublicRelease({ updateResults }, tx, { by, repository, reason }),
  forget: tools.results.forget,
})

const isModelNeeded = async (db: Db, workspaceId: string, catalogId: string): Promise<boolean> =>
  (await isModelInUse(db, workspaceId, catalogId)) || (await isModelInUseByBatch(db, workspaceId, catalogId))

/** A repository is mirrored where it is read: by whoever looks for candidates, and by each worker that makes tasks. */
const batchTools = (tools: Tools) => ({
  ...repositoryTools(tools),
  repositories: {
    ...repositoryTools(tools),
    mirrors: { folder: join(tools.config.dataFolder, 'mirrors'), log: tools.log },
  },
  ...{ blobs: tools.blobs, draftsFolder: draftsFolder(tools), scratchFolder: tools.trialsFolder },
  scansFolder: join(tools.config.dataFolder, 'scans'),
})

const makingTools = (tools: Tools) => ({
  ...batchTools(tools),
  ...{
    stages: tools.stages,
    sandboxWaitMs: tools.waits.sandboxMs,
    folder: tools.trialsFolder,
    findProvider: tools.findProvider,
  },
  ...{ ledger: tools.ledger, gatewayUrl: tools.gatewayUrl },
  ...(tools.batchStep ? { step: tools.batchStep } : {}),
})

const releaseTools = (tools: Tools) => ({
  ...repositoryTools(tools),
  ...{ blobs: tools.blobs, publicOwners: tools.config.publicOwners, updateResults },
  publicUrl: () => publicUrl(tools),
})

const publicUrl = ({ config, baseUrl }: Tools): string => config.publicUrl ?? baseUrl()

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

const webhookTools = ({ database, keyring, config }: Tools) => ({
  ...{ db: database.db, keyring },
  webhookTrust: config.webhooksPrivate ? ('operator' as const) : ('client' as const),
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
      bodyTimeoutMs: tools.waits.bodyMs ?? 30_000,
      clientAddress: createClientAddressReader(tools.config.trustedProxies),
      uploadsFolder: uploadsFolder(tools),
      observe: tools.metrics.observeRequest,
      findCached: createCachedAnswers(tools.results),
    },
    groups.flatMap((group) => group.routes),
  )
  addMetaRoutes(http, {
    version: about.version,
    baseUrl: tools.baseUrl,
    log: tools.log,
    metrics: tools.metrics,
    isOperatorKey: operatorKeyTest(tools.config.operatorKey),
    ready: () => runChecks(readinessChecks(tools)),
    groups: endpointGroups(groups),
    problems: problemsOf(endpointGroups(groups)),
  })
  return http
}

export const endpointGroups = (groups: { name: string; routes: Route[] }[]): EndpointGroup[] =>
  groups.map(({ name, routes }) => ({ name, endpoints: routes.map((route) => route.endpoint) }))

const problemsOf = (groups: EndpointGroup[]): ProblemKind[] => {
  const undeclared: ProblemKind[] = [methodNotAllowed, requestTimeout, internalError, unavailable]
  const declared = groups
    .flatMap((group) => group.endpoints)
    .flatMap((endpoint) => [...listStatuses(endpoint).values()])
    .flatMap((status) => status.problems)
  return [...new Map([...declared, ...undeclared].map((kind) => [kind.code, kind])).values()].sort(
    (a, b) => a.status - b.status,
  )
}

/** Lists the background jobs that need no sandbox. */
export const serviceJobs = (tools: Tools): JobHandler[] => [
  defineRecurringJob('expiry.sweep', 3600, async () => {
    await endExpiredSessions(tools.database.db)
    await deleteExpiredIdempotencyKeys(tools.database.db)
    await sweepDeliveries(tools.database.db)
  }),
  defineRecurringJob('contents.sweep', 3600, async () => {
    await sweepContents({ db: tools.database.db, blobs: tools.blobs })
    await sweepDrafts(draftsFolder(tools))
    await sweepOutput(tools.trialsFolder)
    await deleteStaleSpools(uploadsFolder(tools))
    await sweepArchives({ db: tools.database.db, blobs: tools.blobs })
    await sweepBundles({ db: tools.database.db, blobs: tools.blobs, isHarnessInUse })
    await sweepUploaded(bundlesFolder(tools.config.dataFolder))
    await sweepArtifacts({ db: tools.database.db, blobs: tools.blobs }, tools.config.artifactDays)
    await sweepBodies({ db: tools.database.db, blobs: tools.blobs }, tools.config.artifactDays)
  }),
  defineRecurringJob('comparisons.end', 30, async () => {
    await countLateSpend(tools.database.db)
    await completeAllDone(tools.database.db)
  }),
  defineRecurringJob('releases.visibility', 3600, ({ signal }) => checkVisibility(releaseTools(tools), signal)),
  importJob({
    db: tools.database.db,
    blobs: tools.blobs,
    draftsFolder: draftsFolder(tools),
    sandboxWaitMs: tools.waits.sandboxMs,
  }),
  ...pipelineJobs(makingTools(tools)),
  deliverJob({
    ...webhookTools(tools),
    outbound: tools.outbound,
    version: about.version,
    timeoutMs: tools.waits.webhookMs,
  }),
  submitJob({ ...benchmarkTools(tools), offerWaitMs: tools.waits.offerMs, ...stepOf(tools) }),
]

/** Lists the jobs that need this sandbox. Only a worker that has the sandbox handles them. */
export const sandboxJobs = (tools: Tools, sandbox: string): JobHandler[] => [
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
  stageJob(makingTools(tools), sandbox),
]

const tryingTools = ({ database, blobs, validate, trialsFolder }: Tools) => ({
  ...{ db: database.db, blobs, validate, folder: trialsFolder },
})

const stepOf = ({ step }: Tools): Pick<Tools, 'step'> => (step ? { step } : {})

/** Without these no request can be answered. */
const readinessChecks = ({ database, keyring }: Tools): HealthCheck[] => [
  databaseCheck(database),
  migrationsCheck(database),
  heldKeyCheck(database, keyring),
]

/** Without the rest of these some work cannot be done. */
const healthTools = (tools: Tools) => ({
  ...{ db: tools.database.db, credentials: credentialTools(tools), log: tools.log },
  serviceChecks: [...readinessChecks(tools), blobsCheck(tools.blobs), workersCheck(tools.database)],
})

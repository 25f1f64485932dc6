import { join } from 'node:path'
import { z } from 'zod'
import about from '../package.json' with { type: 'json' }
import type { Config } from './config.ts'
import { type Keyring, openKeyring } from './credentials/master-key.ts'
import { credentialRoutes } from './credentials/routes.ts'
import { blobsCheck, databaseCheck, masterKeyCheck, migrationsCheck, workersCheck } from './operate/service-checks.ts'
import { type Blobs, openBlobs } from './platform/blobs/blobs.ts'
import type { Database } from './platform/db/db.ts'
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
  /** As others see this service. */
  baseUrl: () => string
  /** Told once the service listens, which is when its own address is known. */
  listensAt: (url: string) => void
}

export async function openTools(config: Config, database: Database, log: Log): Promise<Tools> {
  let listeningUrl = `http://${config.host}:${config.port}`
  return {
    config,
    database,
    log,
    metrics: createMetrics(),
    blobs: openBlobs(config.blobs, join(config.dataFolder, 'spool')),
    keyring: config.credentialStorage ? await openKeyring({ db: database.db, ...config }) : undefined,
    outbound: createOutbound(),
    baseUrl: () => config.baseUrl ?? listeningUrl,
    listensAt: (url) => {
      listeningUrl = url
    },
  }
}

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
  {
    name: 'Credentials',
    routes: credentialRoutes({
      db: tools.database.db,
      keyring: tools.keyring,
      environment: tools.config.environment,
      upstreams: tools.config.upstreams,
      outbound: tools.outbound,
    }),
  },
]

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
export const jobKinds = ({ database }: Tools): RunnableKind[] => [
  {
    kind: 'expiry.sweep',
    payload: z.strictObject({}),
    everySeconds: 3600,
    run: async () => {
      await endExpiredSessions(database.db)
      await forgetOldKeys(database.db)
    },
  },
]

/** Without these no request can be answered. */
const readinessChecks = ({ database }: Tools): Check[] => [databaseCheck(database), migrationsCheck(database)]

/** And without these some work cannot be done. */
const healthChecks = (tools: Tools): Check[] => [
  ...readinessChecks(tools),
  masterKeyCheck(tools.database, tools.config),
  blobsCheck(tools.blobs),
  workersCheck(tools.database),
]

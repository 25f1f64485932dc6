import type { Context } from 'hono'
import { newId } from '../ids.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { ProblemKind } from '../problem.ts'
import { newUnauthenticated, readPresentedSecrets } from './admit.ts'
import { buildOpenApiDocument, type EndpointGroup } from './openapi.ts'
import { renderProblemsPage, renderReferencePage } from './reference.ts'
import { toProblemAnswer } from './respond.ts'
import type { Http } from './server.ts'

export type HealthRouteDeps = {
  baseUrl: () => string
  log: Log
  metrics: Metrics
  isOperatorKey: (key: string) => boolean
  /** Runs the readiness checks. The operator gets all fields of their results. */
  ready: () => Promise<{ ok: boolean }[]>
}

type MetaRouteDeps = HealthRouteDeps & {
  version: string
  groups: EndpointGroup[]
  problems: ProblemKind[]
}

const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'same-origin',
}

/** Adds health and metrics. Metrics and the details of readiness require the operator key. */
export function addHealthRoutes(http: Http, deps: HealthRouteDeps): void {
  http.get('/healthz', (c) => c.json({ ok: true }))
  http.get('/readyz', async (c) => {
    const checks = await deps.ready()
    const ok = checks.every((check) => check.ok)
    return c.json(isOperator(deps, c) ? { ok, checks } : { ok }, ok ? 200 : 503, NO_STORE)
  })
  http.get('/metrics', async (c) => {
    if (!isOperator(deps, c)) return unauthorized(deps)
    return c.body(await deps.metrics.text(), 200, { ...NO_STORE, 'content-type': deps.metrics.contentType })
  })
}

/** Adds health, metrics and documentation pages. */
export function addMetaRoutes(http: Http, deps: MetaRouteDeps): void {
  addHealthRoutes(http, deps)
  const openApi = encodeOnce(() =>
    JSON.stringify(buildOpenApiDocument(deps.groups, { version: deps.version, url: deps.baseUrl() })),
  )
  const reference = encodeOnce(() => renderReferencePage(deps.groups))
  const problems = encodeOnce(() => renderProblemsPage(deps.problems))
  http.get('/openapi.json', (c) => c.body(openApi(), 200, { 'content-type': 'application/json' }))
  http.get('/docs', (c) => c.body(reference(), 200, PAGE_HEADERS))
  http.get('/docs/problems', (c) => c.body(problems(), 200, PAGE_HEADERS))
}

/** Builds and encodes a document when it is first requested, and caches the bytes: it never changes and is slow to build. */
function encodeOnce(build: () => string): () => Uint8Array<ArrayBuffer> {
  let bytes: Uint8Array<ArrayBuffer> | undefined
  return () => {
    bytes ??= new TextEncoder().encode(build())
    return bytes
  }
}

const NO_STORE = { 'cache-control': 'no-store' }

function isOperator({ isOperatorKey }: HealthRouteDeps, c: Context): boolean {
  const { bearer } = readPresentedSecrets({ authorization: c.req.header('authorization') })
  return bearer !== undefined && isOperatorKey(bearer)
}

function unauthorized({ log, baseUrl }: HealthRouteDeps): Response {
  const requestId = newId()
  const { status, text, headers } = toProblemAnswer(newUnauthenticated(), { log, baseUrl: baseUrl(), requestId })
  return new Response(text, { status, headers: { ...headers, ...NO_STORE, 'x-request-id': requestId } })
}

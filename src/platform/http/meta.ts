import type { Context } from 'hono'
import type { Finding } from '../health.ts'
import { newId } from '../ids.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { ProblemKind } from '../problem.ts'
import { presented, stranger } from './admit.ts'
import { type EndpointGroup, openApiDocument } from './openapi.ts'
import { homePage, problemsPage, referencePage } from './reference.ts'
import { failure } from './respond.ts'
import type { Http } from './server.ts'

type Tools = {
  version: string
  baseUrl: () => string
  log: Log
  metrics: Metrics
  isOperatorKey: (key: string) => boolean
  ready: () => Promise<Finding[]>
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

/** Health, metrics and the pages that explain the service. Metrics and the details of readiness need the operator key. */
export function addMeta(http: Http, tools: Tools): void {
  http.get('/healthz', (c) => c.json({ ok: true }))
  http.get('/readyz', async (c) => {
    const checks = await tools.ready()
    const ok = checks.every((check) => check.ok)
    return c.json(isOperator(tools, c) ? { ok, checks } : { ok }, ok ? 200 : 503, NO_STORE)
  })
  http.get('/metrics', async (c) => {
    if (!isOperator(tools, c)) return unauthorized(tools)
    return c.body(await tools.metrics.text(), 200, { ...NO_STORE, 'content-type': tools.metrics.contentType })
  })
  // Both are built once, on the first request: they take long and never change.
  let document: ReturnType<typeof openApiDocument> | undefined
  http.get('/openapi.json', (c) => {
    document ??= openApiDocument(tools.groups, { version: tools.version, url: tools.baseUrl() })
    return c.json(document)
  })
  let reference: string | undefined
  http.get('/docs', (c) => {
    reference ??= referencePage(tools.groups)
    return c.body(reference, 200, PAGE_HEADERS)
  })
  http.get('/docs/problems', (c) => c.body(problemsPage(tools.problems), 200, PAGE_HEADERS))
  http.get('/', (c) => c.body(homePage(tools.version), 200, PAGE_HEADERS))
}

const NO_STORE = { 'cache-control': 'no-store' }

function isOperator({ isOperatorKey }: Tools, c: Context): boolean {
  const { bearer } = presented({ authorization: c.req.header('authorization') })
  return bearer !== undefined && isOperatorKey(bearer)
}

function unauthorized({ log, baseUrl }: Tools): Response {
  const requestId = newId()
  const { status, text, headers } = failure(stranger(), { log, baseUrl: baseUrl(), requestId })
  return new Response(text, { status, headers: { ...headers, ...NO_STORE, 'x-request-id': requestId } })
}

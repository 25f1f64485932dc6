import type { Finding } from '../health.ts'
import type { Metrics } from '../metrics.ts'
import type { ProblemKind } from '../problem.ts'
import { type EndpointGroup, openApiDocument } from './openapi.ts'
import { homePage, problemsPage, referencePage } from './reference.ts'
import type { Http } from './server.ts'

type Tools = {
  version: string
  baseUrl: () => string
  metrics: Metrics
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

/** What every deployment asks of a service, and the pages that explain this one. None of it needs a key. */
export function addMeta(http: Http, tools: Tools): void {
  http.get('/healthz', (c) => c.json({ ok: true }))
  http.get('/readyz', async (c) => {
    const findings = await tools.ready()
    const ok = findings.every((finding) => finding.ok)
    return c.json({ ok, checks: findings.map(({ name, ok }) => ({ name, ok })) }, ok ? 200 : 503)
  })
  http.get('/metrics', async (c) =>
    c.body(await tools.metrics.text(), 200, { 'content-type': tools.metrics.contentType }),
  )
  http.get('/openapi.json', (c) =>
    c.json(openApiDocument(tools.groups, { version: tools.version, url: tools.baseUrl() })),
  )
  // Made when somebody asks for the first time: it is always the same.
  let reference: string | undefined
  http.get('/docs', (c) => {
    reference ??= referencePage(tools.groups)
    return c.body(reference, 200, PAGE_HEADERS)
  })
  http.get('/docs/problems', (c) => c.body(problemsPage(tools.problems), 200, PAGE_HEADERS))
  http.get('/', (c) => c.body(homePage(tools.version), 200, PAGE_HEADERS))
}

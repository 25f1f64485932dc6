import { renderProblemPage } from '../../web/public/problem/page.ts'
import { renderReleasePage } from '../../web/public/release/page.ts'
import { renderRepositoryPage } from '../../web/public/repository/page.ts'
import { renderResultsPage } from '../../web/public/results/page.ts'
import { type Endpoint, replyCached } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import type { ServerDeps } from '../platform/http/server.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type CachedRead, describeRead, type ResultsCache } from '../results/cache.ts'
import { type RepositoryName, toNameKey } from '../results/update-results.ts'
import { assetVersion, findFont, script, stylesheet } from './assets.ts'
import { loadCards, loadRelease, loadRepository } from './documents.ts'
import * as schema from './schema.ts'

type SiteDeps = { cache: ResultsCache; publicUrl: () => string }

/** Pages load nothing from other hosts and execute only the script of this service. */
const PAGE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
}
/** Pages must be revalidated, so that withdrawn results disappear immediately. */
const PAGE_CACHING = { 'cache-control': 'public, no-cache', vary: 'Accept-Encoding' }
/** Pages link to assets with their version, so that an asset never changes under its URL. */
const ASSET_CACHING = { 'cache-control': 'public, max-age=31536000, immutable', vary: 'Accept-Encoding' }

const pageRead = (endpoint: Endpoint) => describeRead(endpoint, { ...PAGE_HEADERS, ...PAGE_CACHING })
const assetRead = (endpoint: Endpoint) => describeRead(endpoint, { ...PAGE_HEADERS, ...ASSET_CACHING })

const READS = {
  results: pageRead(schema.showResults),
  repository: pageRead(schema.showRepository),
  release: pageRead(schema.showRelease),
  stylesheet: assetRead(schema.readStylesheet),
  script: assetRead(schema.readScript),
}

/** Reads of the site that are answered from the cache. */
export const siteReads: readonly CachedRead<Endpoint>[] = Object.values(READS)

type PageRequest = { acceptEncoding: string | undefined; target: string }
type PageSource = { key: unknown[]; repository?: RepositoryName; render: () => Promise<string> }

/** Routes of the public pages. A page is rendered once per release and view, then sent from the cache. */
export function siteRoutes({ cache, publicUrl }: SiteDeps): Route[] {
  const site = () => ({ publicUrl: publicUrl(), assetVersion })
  const answer = async (read: CachedRead, request: PageRequest, { key, repository, render }: PageSource) => {
    const cacheKey = JSON.stringify([read.endpoint.id, ...key])
    const { cached, headers } = await cache.answer(read, request, {
      key: cacheKey,
      name: repository && toNameKey(repository),
      render,
    })
    return replyCached(cached, headers)
  }
  return [
    route(schema.showResults, (call) =>
      answer(READS.results, call, {
        key: [call.query],
        render: async () => renderResultsPage(site(), await loadCards(call.db, call.query.q), call.query),
      }),
    ),
    route(schema.showRepository, (call) =>
      answer(READS.repository, call, {
        key: [toNameKey(call.params), call.query],
        repository: call.params,
        render: async () =>
          renderRepositoryPage(site(), await loadRepository(call.db, call.params, call.query.publisher), call.query),
      }),
    ),
    route(schema.showRelease, (call) =>
      answer(READS.release, call, {
        key: [toNameKey(call.params), call.params.releaseId.toLowerCase(), call.query],
        repository: call.params,
        render: async () =>
          renderReleasePage(site(), await loadRelease(call.db, call.params, call.params.releaseId), call.query),
      }),
    ),
    route(schema.readStylesheet, (call) => answer(READS.stylesheet, call, { key: [], render: async () => stylesheet })),
    route(schema.readScript, (call) => answer(READS.script, call, { key: [], render: async () => script })),
    route(schema.readFont, async ({ params }) => {
      const font = findFont(params.font)
      if (!font) throw new Problem(notFound, `No font ${params.font}`)
      return replyCached(font, { ...PAGE_HEADERS, ...ASSET_CACHING })
    }),
  ]
}

/** Creates the renderer of problems for browsers. Programs get the JSON document. */
export const createProblemPages =
  (publicUrl: () => string): ServerDeps['renderProblem'] =>
  (problem) => ({
    text: renderProblemPage({ publicUrl: publicUrl(), assetVersion }, problem),
    headers: { ...PAGE_HEADERS, 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' },
  })

import { renderAcrossPage } from '../../web/public/across/page.ts'
import { renderComparePage } from '../../web/public/compare/page.ts'
import { renderGuideIndex, renderGuidePage, renderMethodologyPage } from '../../web/public/documents/page.ts'
import { renderProblemPage } from '../../web/public/problem/page.ts'
import { renderPublisherPage } from '../../web/public/publisher/page.ts'
import { renderReleasePage } from '../../web/public/release/page.ts'
import { renderRepositoryPage } from '../../web/public/repository/page.ts'
import { renderResultsPage } from '../../web/public/results/page.ts'
import type { Db } from '../platform/db/db.ts'
import { type Endpoint, replyCached } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import type { ServerDeps } from '../platform/http/server.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { previewReleasePage } from '../releases/schema.ts'
import { readRepository } from '../repos/repos.ts'
import { CACHE_HEADERS, type CachedRead, computeEntityTag, describeRead, type ResultsCache } from '../results/cache.ts'
import { listCards, type RepositoryName, toNameKey } from '../results/results.ts'
import { assetVersion, findFont, script, stylesheet } from './assets.ts'
import { listGuide, renderDocument } from './documentation.ts'
import { loadAcross, loadPreview, loadPublisher, loadRelease, loadReleasePair, loadRepository } from './documents.ts'
import * as schema from './schema.ts'
import { drawShareImage } from './share-image.ts'
import { renderLlms, renderOembed, renderRobots, renderSitemap } from './sharing.ts'

export type SiteDeps = {
  cache: ResultsCache
  publicUrl: () => string
  /** Counts pages that were rendered rather than sent from the cache. */
  countRendering: (page: string) => void
}

/** Pages load nothing from other hosts and execute only the script of this service. */
const PAGE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'referrer-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
}
/** Pages link to assets with their version, so that an asset never changes under its URL. */
const ASSET_CACHING = { 'cache-control': 'public, max-age=31536000, immutable', vary: 'Accept-Encoding' }

const ASSET_ENDPOINTS: readonly string[] = [schema.readStylesheet.id, schema.readScript.id]

const CACHED_READS = new Map<string, CachedRead<Endpoint>>(
  Object.values(schema).flatMap((each) => {
    if (typeof each !== 'object' || !('path' in each)) return []
    const caching = ASSET_ENDPOINTS.includes(each.id) ? ASSET_CACHING : CACHE_HEADERS
    return [[each.id, describeRead(each, { ...PAGE_HEADERS, ...caching })]]
  }),
)

/** Reads of the site that are answered from the cache. */
export const siteReads: readonly CachedRead<Endpoint>[] = [...CACHED_READS.values()]

type PageCall = { acceptEncoding: string | undefined; target: string; db: Db }
/** Source of a page. Pages without a repository depend on all results. */
type PageSource = { key: unknown[]; repository?: RepositoryName; render: () => Promise<string | Uint8Array> | string }

/** Routes of the public pages. A page is rendered once per release and view, then sent from the cache. */
export function siteRoutes(deps: SiteDeps): Route[] {
  const { cache, countRendering } = deps
  const answer: AnswerPage = async ({ id }, call, { key, repository, render }) => {
    const read = CACHED_READS.get(id)
    if (!read) throw new Error(`${id} is not a page`)
    const { cached, headers } = await cache.answer(read, call, {
      key: JSON.stringify([id, ...key]),
      name: repository && toNameKey(repository),
      render: async () => {
        countRendering(id)
        return render()
      },
    })
    return replyCached(cached, headers)
  }
  return [
    ...repositoryRoutes(deps, answer),
    ...acrossRoutes(deps, answer),
    ...documentRoutes(deps, answer),
    ...machineRoutes(deps, answer),
    ...assetRoutes(answer),
  ]
}

type AnswerPage = (
  endpoint: { id: string },
  call: PageCall,
  source: PageSource,
) => Promise<ReturnType<typeof replyCached>>

/** A preview executes nothing and is shown only inside the workspace app or in a tab. */
const PREVIEW_HEADERS = {
  ...PAGE_HEADERS,
  'content-security-policy':
    "default-src 'none'; style-src 'self'; img-src 'self'; font-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'self'",
  'cache-control': 'private, no-cache',
}

/** The route of the preview page, which is part of the API: it needs a key and is never cached for others. */
export const previewPageRoute = (deps: Pick<SiteDeps, 'publicUrl'>): Route =>
  route(
    previewReleasePage,
    ({ db, caller, params: { owner, name } }) => readRepository(db, { workspaceId: caller.workspace.id, owner, name }),
    async ({ db, caller, query }, repository) => {
      const selection = { repository, publisher: caller.workspace, settings: query.setting }
      const site = { ...toSite(deps), linkTarget: '_blank' as const }
      const body = new TextEncoder().encode(renderRepositoryPage(site, await loadPreview(db, selection), {}))
      const etag = `"${computeEntityTag(body)}"`
      return replyCached({ body, etag, type: previewReleasePage.media }, PREVIEW_HEADERS)
    },
  )

const toSite = ({ publicUrl }: Pick<SiteDeps, 'publicUrl'>) => ({ publicUrl: publicUrl(), assetVersion })

/** Part of the cache key of pages that show today's prices. */
const toPriceDay = (prices: 'today' | undefined): string | undefined => prices && new Date().toISOString().slice(0, 10)

const repositoryRoutes = (deps: SiteDeps, answer: AnswerPage): Route[] => [
  route(schema.showRepository, (call) =>
    answer(schema.showRepository, call, {
      key: [toNameKey(call.params), call.query, toPriceDay(call.query.prices)],
      repository: call.params,
      render: async () =>
        renderRepositoryPage(toSite(deps), await loadRepository(call.db, call.params, call.query), call.query),
    }),
  ),
  route(schema.showRelease, (call) => {
    const { releaseId } = call.params
    const selection = { releaseId, prices: call.query.prices }
    return answer(schema.showRelease, call, {
      key: [toNameKey(call.params), releaseId.toLowerCase(), call.query, toPriceDay(call.query.prices)],
      repository: call.params,
      render: async () =>
        renderReleasePage(toSite(deps), await loadRelease(call.db, call.params, selection), call.query),
    })
  }),
  route(schema.compareReleases, (call) =>
    answer(schema.compareReleases, call, {
      key: [toNameKey(call.params), call.query],
      repository: call.params,
      render: async () => renderComparePage(toSite(deps), await loadReleasePair(call.db, call.params, call.query)),
    }),
  ),
]

/** Pages over all repositories. */
function acrossRoutes(deps: SiteDeps, answer: AnswerPage): Route[] {
  const answerAcross = (
    endpoint: { id: string },
    kind: schema.AcrossKind,
    call: PageCall & { params: { path: string } },
  ) => {
    const id = call.params.path
    const render = async () => renderAcrossPage(toSite(deps), { kind, id, rows: await loadAcross(call.db, kind, id) })
    return answer(endpoint, call, { key: [id], render })
  }
  return [
    route(schema.showResults, (call) =>
      answer(schema.showResults, call, {
        key: [call.query],
        render: async () => renderResultsPage(toSite(deps), await listCards(call.db, call.query.q), call.query),
      }),
    ),
    route(schema.showModel, (call) => answerAcross(schema.showModel, 'model', call)),
    route(schema.showHarness, (call) => answerAcross(schema.showHarness, 'harness', call)),
    route(schema.showSetting, (call) => answerAcross(schema.showSetting, 'setting', call)),
    route(schema.showPublisher, (call) => {
      const { login } = call.params
      const render = async () => renderPublisherPage(toSite(deps), login, await loadPublisher(call.db, login))
      return answer(schema.showPublisher, call, { key: [login.toLowerCase()], render })
    }),
  ]
}

const documentRoutes = (deps: SiteDeps, answer: AnswerPage): Route[] => [
  route(schema.showMethodology, (call) => {
    const render = () => renderMethodologyPage(toSite(deps), requireDocument('statistics.md'))
    return answer(schema.showMethodology, call, { key: [], render })
  }),
  route(schema.showAttacks, (call) => {
    const render = () => renderMethodologyPage(toSite(deps), requireDocument('attacks.md'))
    return answer(schema.showAttacks, call, { key: [], render })
  }),
  route(schema.showGuide, (call) => {
    const render = () => renderGuideIndex(toSite(deps), listGuide())
    return answer(schema.showGuide, call, { key: [], render })
  }),
  route(schema.showGuidePage, (call) => {
    const file = `${call.params.page}.md`
    const render = () => renderGuidePage(toSite(deps), requireDocument(file), listGuide())
    return answer(schema.showGuidePage, call, { key: [file], render })
  }),
]

function requireDocument(file: string): NonNullable<ReturnType<typeof renderDocument>> {
  const document = renderDocument(file)
  if (!document) throw new Problem(notFound, 'The guide has no such page.')
  return document
}

/** Documents for search engines and for sites that embed results. */
const machineRoutes = ({ publicUrl }: SiteDeps, answer: AnswerPage): Route[] => [
  route(schema.readShareImage, (call) =>
    answer(schema.readShareImage, call, {
      key: [toNameKey(call.params)],
      repository: call.params,
      render: async () => {
        const { release, card } = (await loadRepository(call.db, call.params, {})).selected
        return drawShareImage(release, card.picks.find(({ roles }) => roles.includes('best-value'))?.setting.id)
      },
    }),
  ),
  route(schema.readRobots, (call) =>
    answer(schema.readRobots, call, { key: [], render: () => renderRobots(publicUrl()) }),
  ),
  route(schema.readLlms, (call) => answer(schema.readLlms, call, { key: [], render: () => renderLlms(publicUrl()) })),
  route(schema.readSitemap, (call) => {
    const render = async () => {
      const cards = (await listCards(call.db, undefined)).map(({ card }) => card)
      return renderSitemap(publicUrl(), cards)
    }
    return answer(schema.readSitemap, call, { key: [], render })
  }),
  route(schema.readOembed, (call) => {
    const render = async () => renderOembed(call.db, publicUrl(), call.query)
    return answer(schema.readOembed, call, { key: [call.query], render })
  }),
]

const assetRoutes = (answer: AnswerPage): Route[] => [
  route(schema.readStylesheet, (call) => answer(schema.readStylesheet, call, { key: [], render: () => stylesheet })),
  route(schema.readScript, (call) => answer(schema.readScript, call, { key: [], render: () => script })),
  route(schema.readFont, async ({ params }) => {
    const font = findFont(params.font)
    if (!font) throw new Problem(notFound, `No font ${params.font}`)
    return replyCached(font, { ...PAGE_HEADERS, ...ASSET_CACHING })
  }),
]

/** Creates the renderer of problems for browsers. Programs get the JSON document. */
export const createProblemPages =
  (publicUrl: () => string): ServerDeps['renderProblem'] =>
  (problem) => ({
    text: renderProblemPage(toSite({ publicUrl }), problem),
    headers: { ...PAGE_HEADERS, 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-store' },
  })

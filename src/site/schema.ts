import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import type { ProblemKind } from '../platform/problem.ts'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import type { Card, SettingSummary } from '../results/schema.ts'

export const resultsWithdrawn = {
  code: 'results_withdrawn',
  status: 410,
  title: 'Results withdrawn',
  meaning: 'The publisher withdrew the results of this repository. The history has the reason.',
} as const satisfies ProblemKind

/** A choice in a query. Invalid values count as not given, so that an old or mistyped link still shows the page. */
const choice = z.string().trim().max(200).optional().catch(undefined)
const publicPage = {
  method: 'GET',
  access: 'public',
  media: 'text/html; charset=utf-8',
  answers: { 200: null },
} as const

const ResultsQuery = z.object({
  q: choice,
  provider: choice,
  harness: choice,
  language: choice,
  page: z.coerce.number().int().min(1).max(1000).optional().catch(undefined),
})

const SORTS = ['rank', 'solved', 'cost', 'time', 'frontier'] as const
const RepositoryQuery = z.object({
  publisher: choice,
  sort: z.enum(SORTS).optional().catch(undefined),
  provider: choice,
  harness: choice,
  level: choice,
  prices: z.literal('today').optional().catch(undefined),
})
export type RepositoryView = z.infer<typeof RepositoryQuery>
export type ResultsView = z.infer<typeof ResultsQuery>

type SettingNames = Pick<ReleaseSetting, 'id' | 'harness' | 'custom'>

/** Returns true if model and harness mean the same in every workspace. A workspace chooses the names of its own. */
export const isPublicSetting = ({ harness, custom }: SettingNames): boolean => !custom && !harness.startsWith('custom/')

/** Returns true if the setting has a page across repositories. A configuration, the fourth part of an id, is private. */
export const hasSettingPage = (setting: SettingNames): boolean =>
  isPublicSetting(setting) && setting.id.split('|').length === 3

/** A card of the index page, and the programming language of most tasks of its release if it is known. */
export type ListedCard = { card: Card; language: string | null }

export type AcrossKind = 'model' | 'harness' | 'setting'

/** Results of one setting on one repository, from the line of one publisher. */
export type AcrossRow = Pick<Release, 'repository' | 'publisher' | 'releasedAt'> & {
  endorsed: boolean
  defaultLine: boolean
  /** Number of settings in the release, which ranks refer to. */
  settings: number
  setting: ReleaseSetting
  /** The most accurate setting of the release. */
  best: SettingSummary | undefined
}

export const showResults = endpoint({
  ...publicPage,
  id: 'showResults',
  path: '/',
  summary: 'Page: published results, newest first',
  query: ResultsQuery,
})

export const showRepository = endpoint({
  ...publicPage,
  id: 'showRepository',
  path: '/results/{owner}/{name}',
  summary: 'Page: results of a repository',
  query: RepositoryQuery,
  problems: [resultsWithdrawn],
})

export const showRelease = endpoint({
  ...publicPage,
  id: 'showRelease',
  path: '/results/{owner}/{name}/releases/{releaseId}',
  summary: 'Page: one release of a repository',
  query: RepositoryQuery.omit({ publisher: true }),
})

export const compareReleases = endpoint({
  ...publicPage,
  id: 'compareReleases',
  path: '/results/{owner}/{name}/compare',
  summary: 'Page: what changed between two releases',
  query: z.object({ from: choice, to: choice }),
})

export const showModel = endpoint({
  ...publicPage,
  id: 'showModel',
  path: '/models/{path}',
  summary: 'Page: a model on all public repositories',
})

export const showHarness = endpoint({
  ...publicPage,
  id: 'showHarness',
  path: '/harnesses/{path}',
  summary: 'Page: a harness on all public repositories',
})

export const showSetting = endpoint({
  ...publicPage,
  id: 'showSetting',
  path: '/settings/{path}',
  summary: 'Page: a setting on all public repositories',
})

export const showPublisher = endpoint({
  ...publicPage,
  id: 'showPublisher',
  path: '/publishers/{login}',
  summary: 'Page: results of a publisher',
})

export const showMethodology = endpoint({
  ...publicPage,
  id: 'showMethodology',
  path: '/methodology',
  summary: 'Page: how results are measured',
})

export const showAttacks = endpoint({
  ...publicPage,
  id: 'showAttacks',
  path: '/methodology/attacks',
  summary: 'Page: attacks on the verdict that were tried',
})

export const showGuide = endpoint({
  ...publicPage,
  id: 'showGuide',
  path: '/guide',
  summary: 'Page: contents of the guide',
})

export const showGuidePage = endpoint({
  ...publicPage,
  id: 'showGuidePage',
  path: '/guide/{page}',
  summary: 'Page: one part of the guide',
})

export const readShareImage = endpoint({
  ...publicPage,
  id: 'readShareImage',
  path: '/results/{owner}/{name}/image.png',
  summary: 'Picture of a repository for services that show links',
  media: 'image/png',
  crossOrigin: true,
})

export const readRobots = endpoint({
  ...publicPage,
  id: 'readRobots',
  path: '/robots.txt',
  summary: 'Rules for search engines',
  media: 'text/plain; charset=utf-8',
})

export const readLlms = endpoint({
  ...publicPage,
  id: 'readLlms',
  path: '/llms.txt',
  summary: 'What language models should know about this service, and where to read more',
  media: 'text/plain; charset=utf-8',
})

export const readSitemap = endpoint({
  ...publicPage,
  id: 'readSitemap',
  path: '/sitemap.xml',
  summary: 'All pages for search engines',
  media: 'application/xml; charset=utf-8',
})

export const readOembed = endpoint({
  ...publicPage,
  id: 'readOembed',
  path: '/oembed',
  summary: 'oEmbed document of a repository page',
  media: 'application/json',
  crossOrigin: true,
  query: z.object({
    url: z.string().max(1000).optional().catch(undefined),
    maxwidth: z.coerce.number().int().min(100).max(4000).optional().catch(undefined),
  }),
})

export const readStylesheet = endpoint({
  ...publicPage,
  id: 'readStylesheet',
  path: '/assets/site.css',
  summary: 'Stylesheet of all pages',
  media: 'text/css; charset=utf-8',
})

export const readScript = endpoint({
  ...publicPage,
  id: 'readScript',
  path: '/assets/site.js',
  summary: 'Script of all pages: sorting, theme and copy buttons',
  media: 'text/javascript; charset=utf-8',
})

export const readFont = endpoint({
  ...publicPage,
  id: 'readFont',
  path: '/assets/fonts/{font}',
  summary: 'Font of all pages',
  media: 'font/woff2',
})

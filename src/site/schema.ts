import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import type { ProblemKind } from '../platform/problem.ts'

export const resultsWithdrawn = {
  code: 'results_withdrawn',
  status: 410,
  title: 'Results withdrawn',
  meaning: 'The publisher withdrew the results of this repository. The history has the reason.',
} as const satisfies ProblemKind

/** A choice in a query. Invalid values count as not given, so that an old or mistyped link still shows the page. */
const choice = z.string().trim().max(200).optional().catch(undefined)
const open = { method: 'GET', access: 'public', media: 'text/html; charset=utf-8', answers: { 200: null } } as const

const ResultsQuery = z.object({
  q: choice,
  provider: choice,
  harness: choice,
  page: z.coerce.number().int().min(1).max(1000).optional().catch(undefined),
})

const SORTS = ['rank', 'solved', 'cost', 'frontier'] as const
const RepositoryQuery = z.object({
  publisher: choice,
  sort: z.enum(SORTS).optional().catch(undefined),
  provider: choice,
  harness: choice,
  level: choice,
})
export type RepositoryView = z.infer<typeof RepositoryQuery>
export type ResultsView = z.infer<typeof ResultsQuery>

export const showResults = endpoint({
  ...open,
  id: 'showResults',
  path: '/',
  summary: 'Page: published results, newest first',
  query: ResultsQuery,
})

export const showRepository = endpoint({
  ...open,
  id: 'showRepository',
  path: '/results/{owner}/{name}',
  summary: 'Page: results of a repository',
  query: RepositoryQuery,
  problems: [resultsWithdrawn],
})

export const showRelease = endpoint({
  ...open,
  id: 'showRelease',
  path: '/results/{owner}/{name}/releases/{releaseId}',
  summary: 'Page: one release of a repository',
  query: RepositoryQuery.omit({ publisher: true }),
})

export const readStylesheet = endpoint({
  ...open,
  id: 'readStylesheet',
  path: '/assets/site.css',
  summary: 'Stylesheet of all pages',
  media: 'text/css; charset=utf-8',
})

export const readScript = endpoint({
  ...open,
  id: 'readScript',
  path: '/assets/site.js',
  summary: 'Script of all pages: sorting, theme and copy buttons',
  media: 'text/javascript; charset=utf-8',
})

export const readFont = endpoint({
  ...open,
  id: 'readFont',
  path: '/assets/fonts/{font}',
  summary: 'Font of all pages',
  media: 'font/woff2',
})

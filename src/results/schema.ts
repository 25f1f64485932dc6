import { z } from 'zod'
import { endpoint } from '../platform/http/endpoint.ts'
import { pageQuery, queryInteger } from '../platform/http/page.ts'
import { PublicRelease, Release, Withdrawal } from '../releases/shapes/schema.ts'

const count = z.number().int().min(0)
const time = z.iso.datetime()

const SettingSummary = z
  .object({
    id: z.string(),
    model: z.object({ label: z.string() }),
    accuracy: z.number().min(0).max(100).describe('In percent.'),
    costPerTaskUsd: z.number().min(0),
    ci95: z
      .object({ low: z.number().min(0).max(100), high: z.number().min(0).max(100) })
      .optional()
      .describe('Interval of the accuracy, in percent. Omitted below five tasks and in older releases.'),
  })
  .meta({ id: 'SettingSummary', description: 'A published setting in short form.' })
export type SettingSummary = z.infer<typeof SettingSummary>

export const Card = z
  .object({
    repository: z.object({ id: z.number().int(), fullName: z.string() }),
    publisher: z.object({ login: z.string(), kind: z.string() }),
    releaseId: z.string(),
    releasedAt: time,
    tasks: count,
    settings: count,
    picks: z.array(
      z.object({
        setting: SettingSummary,
        roles: z.array(z.string()).describe('`cheapest`, `most-accurate`, `best-value`'),
      }),
    ),
    frontier: z.array(SettingSummary),
    endorsed: z.boolean().describe("Endorsed by the repository's owner."),
    defaultLine: z.boolean().describe('True for the line that is shown first if there are several publishers.'),
  })
  .meta({ id: 'ResultCard', description: 'Summary of the published results of a repository.' })
export type Card = z.infer<typeof Card>

export const Line = z
  .object({ release: Release, endorsed: z.boolean() })
  .meta({ id: 'ReleaseLine', description: 'The current release of one publisher for a repository.' })
export type Line = z.infer<typeof Line>

const HistoryEntry = z
  .object({
    releaseId: z.string(),
    releasedAt: time,
    publisher: Card.shape.publisher,
    tasks: count,
    settings: count,
    frontier: z.array(SettingSummary),
    withdrawn: Withdrawal.nullable(),
  })
  .meta({ id: 'HistoryEntry', description: 'A release in the history of a repository.' })
export type HistoryEntry = z.infer<typeof HistoryEntry>

const PublicTask = z
  .object({
    taskId: z.string(),
    title: z.string(),
    difficulty: z.string().nullable(),
    digest: z.string(),
    publishedAt: time,
  })
  .meta({ id: 'PublicTask', description: 'A task whose files are published.' })

const PATH = '/api/public/results/{owner}/{name}'
const publicRead = { method: 'GET', access: 'public', crossOrigin: true } as const

/** Selects one of several publishers of a repository. */
const publisherQuery = z.object({
  publisher: z.string().max(100).optional().describe('Login of a publisher. Default: the default line.'),
})

export const listResults = endpoint({
  ...publicRead,
  id: 'listResults',
  path: '/api/public/results',
  summary: 'List the newest release of each repository and publisher',
  query: z.object({
    limit: queryInteger().min(1).max(200).optional().describe('Maximum number of items on the page. Default: all.'),
    cursor: pageQuery().shape.cursor,
    q: z.string().trim().max(200).optional().describe('Searches the names of repositories, publishers and models.'),
  }),
  answers: { 200: z.object({ cards: z.array(Card), nextCursor: z.string().nullable() }) },
})

export const readResults = endpoint({
  ...publicRead,
  id: 'readResults',
  path: PATH,
  summary: 'Read the public results of a repository: one release per publisher',
  answers: { 200: z.object({ lines: z.array(Line) }) },
})

export const readHistory = endpoint({
  ...publicRead,
  id: 'readResultHistory',
  path: `${PATH}/history`,
  summary: 'List all releases of a repository, newest first, including withdrawn ones',
  query: pageQuery(),
  answers: { 200: z.object({ releases: z.array(HistoryEntry), nextCursor: z.string().nullable() }) },
})

export const readPublicRelease = endpoint({
  ...publicRead,
  id: 'readPublicRelease',
  path: `${PATH}/releases/{releaseId}`,
  summary: 'Read any release of a repository',
  answers: { 200: PublicRelease },
})

export const readResultsCsv = endpoint({
  ...publicRead,
  id: 'readResultsCsv',
  path: `${PATH}/results.csv`,
  summary: 'Download the settings of a release as CSV',
  query: publisherQuery,
  media: 'text/csv; charset=utf-8; header=present',
  answers: { 200: null },
})

export const readBadge = endpoint({
  ...publicRead,
  id: 'readResultBadge',
  path: `${PATH}/badge.svg`,
  summary: 'Badge with the most accurate setting',
  query: publisherQuery,
  media: 'image/svg+xml',
  answers: { 200: null },
})

export const readChart = endpoint({
  ...publicRead,
  id: 'readResultChart',
  path: `${PATH}/chart.svg`,
  summary: 'Chart of accuracy and cost of all settings',
  query: publisherQuery,
  media: 'image/svg+xml',
  answers: { 200: null },
})

export const listPublicTasks = endpoint({
  ...publicRead,
  id: 'listPublicTasks',
  path: `${PATH}/tasks`,
  summary: 'List the tasks whose files are public',
  query: publisherQuery,
  answers: {
    200: z.object({ tasks: z.array(PublicTask), licence: z.string().describe('Licence terms of the files.') }),
  },
})

export const readPublicTaskArchive = endpoint({
  ...publicRead,
  id: 'readPublicTaskArchive',
  path: `${PATH}/tasks/{taskId}/archive`,
  summary: 'Download the files of a task',
  query: publisherQuery,
  download: true,
  answers: { 200: null },
})

export const readFeed = endpoint({
  ...publicRead,
  id: 'readResultsFeed',
  path: '/api/public/results.atom',
  summary: 'Atom feed of the newest releases',
  media: 'application/atom+xml; charset=utf-8',
  answers: { 200: null },
})

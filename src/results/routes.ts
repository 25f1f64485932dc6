import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { replyFile, replyReady } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import type { Release } from '../releases/shapes/schema.ts'
import { badgeOf } from './badge.ts'
import { encodingOf, type ResultsCache } from './cache.ts'
import { chartOf } from './chart.ts'
import { csvOf } from './csv.ts'
import {
  cardsText,
  drawn,
  feedText,
  historyText,
  linesText,
  openTaskArchive,
  type Place,
  releaseText,
  tasksText,
} from './results.ts'
import * as schema from './schema.ts'
import { nameKeyOf } from './show.ts'

export type ResultTools = { blobs: Blobs; cache: ResultsCache; publicUrl: () => string }

const JSON_TYPE = 'application/json'
/** Others may keep it, and ask each time whether it is still so: what was withdrawn is gone at once. */
const CACHING = { 'cache-control': 'public, no-cache', vary: 'Accept-Encoding' }
/** A picture or a table that is opened by itself is nothing else. */
const SEALED = { 'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; sandbox" }

export const resultRoutes = (tools: ResultTools): Route[] => [
  ...listRoutes(tools),
  ...repositoryRoutes(tools),
  ...drawnRoutes(tools),
  ...taskRoutes(tools),
]

type Asked = { acceptEncoding: string | undefined }
type Wish = { key: unknown[]; place?: Place; type?: string; make: () => Promise<string> }

/** From what was made before, or made now; packed as the client likes it. */
async function ready({ cache }: ResultTools, { acceptEncoding }: Asked, { key, place, type, make }: Wish) {
  const kept = await cache.read(JSON.stringify(key), place && nameKeyOf(place), make)
  const { encoding, ...answer } = await kept.as(encodingOf(acceptEncoding))
  const headers = { ...CACHING, 'content-type': type ?? JSON_TYPE, ...(type === undefined ? {} : SEALED) }
  return replyReady(answer, encoding === 'identity' ? headers : { ...headers, 'content-encoding': encoding })
}

const listRoutes = (tools: ResultTools): Route[] => [
  route(schema.listResults, (call) => {
    const { limit, cursor, q } = call.query
    return ready(tools, call, { key: ['list', limit, cursor, q], make: () => cardsText(call.db, call.query) })
  }),
  route(schema.readFeed, (call) =>
    ready(tools, call, {
      ...{ key: ['feed'], type: schema.readFeed.media, make: () => feedText(call.db, tools.publicUrl()) },
    }),
  ),
]

const repositoryRoutes = (tools: ResultTools): Route[] => [
  route(schema.readResults, (call) =>
    ready(tools, call, {
      ...{ key: ['lines', nameKeyOf(call.params)], place: call.params, make: () => linesText(call.db, call.params) },
    }),
  ),
  route(schema.readHistory, (call) =>
    ready(tools, call, {
      ...{ key: ['history', nameKeyOf(call.params), call.query], place: call.params },
      make: () => historyText(call.db, call.params, call.query),
    }),
  ),
  route(schema.readPublicRelease, (call) =>
    ready(tools, call, {
      ...{ key: ['release', nameKeyOf(call.params), call.params.releaseId.toLowerCase()], place: call.params },
      make: () => releaseText(call.db, call.params, call.params.releaseId),
    }),
  ),
]

type Drawing = { query: { publisher?: string | undefined }; params: Place; db: Db } & Asked

const drawnRoutes = (tools: ResultTools): Route[] => {
  const draw = (call: Drawing, type: string, paint: (release: Release) => string) => {
    const { publisher } = call.query
    return ready(tools, call, {
      ...{ key: ['drawn', paint.name, nameKeyOf(call.params), publisher?.toLowerCase()], place: call.params, type },
      make: () => drawn(call.db, call.params, publisher, paint),
    })
  }
  return [
    route(schema.readResultsCsv, (call) => draw(call, schema.readResultsCsv.media, csvOf)),
    route(schema.readBadge, (call) => draw(call, schema.readBadge.media, badgeOf)),
    route(schema.readChart, (call) => draw(call, schema.readChart.media, chartOf)),
  ]
}

const taskRoutes = (tools: ResultTools): Route[] => [
  route(schema.listPublicTasks, (call) =>
    ready(tools, call, {
      ...{ key: ['tasks', nameKeyOf(call.params), call.query.publisher?.toLowerCase()], place: call.params },
      make: () => tasksText(call.db, call.params, call.query.publisher),
    }),
  ),
  route(schema.readPublicTaskArchive, async ({ db, params, query }) => {
    const wish = { publisher: query.publisher, taskId: params.taskId }
    const { bytes, content } = await openTaskArchive({ db, blobs: tools.blobs }, params, wish)
    return replyFile({ name: `${params.taskId}.tar.gz`, mediaType: 'application/gzip', bytes, content })
  }),
]

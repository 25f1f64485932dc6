import type { Blobs } from '../platform/blobs/blob.ts'
import type { Db } from '../platform/db/db.ts'
import { type Endpoint, replyCached, replyFile } from '../platform/http/endpoint.ts'
import { type Route, route } from '../platform/http/route.ts'
import type { ServerDeps } from '../platform/http/server.ts'
import type { Release } from '../releases/shapes/schema.ts'
import { badgeOf } from './badge.ts'
import type { ResultsCache } from './cache.ts'
import { chartOf } from './chart.ts'
import { csvOf } from './csv.ts'
import { type Encoding, encodingOf, type Packed } from './packed.ts'
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

type Asked = { acceptEncoding: string | undefined; target: string }
type Wish = { key: unknown[]; place?: Place; make: () => Promise<string> }

/** From what was made before, or made now; packed as the client likes it. */
async function ready({ cache }: ResultTools, endpoint: Endpoint, asked: Asked, { key: words, place, make }: Wish) {
  const key = JSON.stringify(words)
  const kept = await cache.read(key, place && nameKeyOf(place), make)
  const packed = await kept.as(encodingOf(asked.acceptEncoding))
  cache.remember(asked.target, { operation: endpoint.id, key })
  return replyCached(packedAs(endpoint, packed), headersOf(endpoint, packed.encoding))
}

const packedAs = ({ media }: Endpoint, { body, etag }: Packed) => ({ body, etag, type: media ?? JSON_TYPE })

function headersOf({ media }: Endpoint, encoding: Encoding): Record<string, string> {
  const headers = { ...CACHING, ...(media === undefined ? {} : SEALED) }
  return encoding === 'identity' ? headers : { ...headers, 'content-encoding': encoding }
}

/** Each with its headers, which are always the same. */
const READS = new Map<string, ReturnType<typeof readOf>>(
  Object.values(schema).flatMap((each) => ('path' in each ? [[each.id, readOf(each)]] : [])),
)

function readOf(endpoint: Endpoint) {
  const headers = (encoding: Encoding) => headersOf(endpoint, encoding)
  return { endpoint, headers: { identity: headers('identity'), gzip: headers('gzip'), br: headers('br') } }
}

/** The same answer for whoever asks again in the same words. */
export const keptAnswers =
  (cache: ResultsCache): ServerDeps['findCached'] =>
  (target, acceptEncoding) => {
    const found = cache.find(target, encodingOf(acceptEncoding))
    const read = found && READS.get(found.operation)
    if (!read) return undefined
    const { endpoint, headers } = read
    return { endpoint, cached: packedAs(endpoint, found.packed), headers: headers[found.packed.encoding] }
  }

const listRoutes = (tools: ResultTools): Route[] => [
  route(schema.listResults, (call) => {
    const { limit, cursor, q } = call.query
    const make = () => cardsText(call.db, call.query)
    return ready(tools, schema.listResults, call, { key: ['list', limit, cursor, q], make })
  }),
  route(schema.readFeed, (call) => {
    const make = () => feedText(call.db, tools.publicUrl())
    return ready(tools, schema.readFeed, call, { key: ['feed'], make })
  }),
]

const repositoryRoutes = (tools: ResultTools): Route[] => [
  route(schema.readResults, (call) =>
    ready(tools, schema.readResults, call, {
      ...{ key: ['lines', nameKeyOf(call.params)], place: call.params, make: () => linesText(call.db, call.params) },
    }),
  ),
  route(schema.readHistory, (call) =>
    ready(tools, schema.readHistory, call, {
      ...{ key: ['history', nameKeyOf(call.params), call.query], place: call.params },
      make: () => historyText(call.db, call.params, call.query),
    }),
  ),
  route(schema.readPublicRelease, (call) =>
    ready(tools, schema.readPublicRelease, call, {
      ...{ key: ['release', nameKeyOf(call.params), call.params.releaseId.toLowerCase()], place: call.params },
      make: () => releaseText(call.db, call.params, call.params.releaseId),
    }),
  ),
]

type Drawing = { query: { publisher?: string | undefined }; params: Place; db: Db } & Asked

const drawnRoutes = (tools: ResultTools): Route[] => {
  const draw = (endpoint: Endpoint, call: Drawing, paint: (release: Release) => string) => {
    const { publisher } = call.query
    return ready(tools, endpoint, call, {
      ...{ key: ['drawn', endpoint.id, nameKeyOf(call.params), publisher?.toLowerCase()], place: call.params },
      make: () => drawn(call.db, call.params, publisher, paint),
    })
  }
  return [
    route(schema.readResultsCsv, (call) => draw(schema.readResultsCsv, call, csvOf)),
    route(schema.readBadge, (call) => draw(schema.readBadge, call, badgeOf)),
    route(schema.readChart, (call) => draw(schema.readChart, call, chartOf)),
  ]
}

const taskRoutes = (tools: ResultTools): Route[] => [
  route(schema.listPublicTasks, (call) =>
    ready(tools, schema.listPublicTasks, call, {
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

import { z } from 'zod'
import * as problems from '../problem.ts'
import { type Endpoint, getPathParameter, listPathParameters } from './endpoint.ts'

/** Endpoints under one heading of the reference. */
export type EndpointGroup = { name: string; description: string; endpoints: Endpoint[] }

/** Lists each problem that these endpoints declare, and the common ones, by status. */
export function listProblems(groups: EndpointGroup[], common: problems.ProblemKind[]): problems.ProblemKind[] {
  const declared = groups
    .flatMap((group) => group.endpoints)
    .flatMap((endpoint) => [...listStatuses(endpoint).values()])
    .flatMap((status) => status.problems)
  const byCode = new Map([...declared, ...common].map((kind) => [kind.code, kind]))
  return [...byCode.values()].sort((a, b) => a.status - b.status)
}

type JsonRecord = Record<string, unknown>

export const ProblemBody = z
  .looseObject({
    type: z.url(),
    title: z.string(),
    status: z.number().int(),
    detail: z.string(),
    code: z.string(),
    requestId: z.string(),
    retryable: z.boolean(),
    errors: z.array(z.object({ pointer: z.string(), code: z.string(), message: z.string() })).optional(),
  })
  .meta({ id: 'Problem', description: 'RFC 9457. `code` is stable; `errors` comes with validation.' })

/** Builds the OpenAPI 3.1 document from the schemas that validate requests. */
export function buildOpenApiDocument(groups: EndpointGroup[], info: { version: string; url: string }): JsonRecord {
  const components: JsonRecord = {}
  const paths: Record<string, JsonRecord> = {}
  for (const { name, endpoints } of groups) {
    for (const endpoint of endpoints) {
      const path = paths[endpoint.path] ?? {}
      path[endpoint.method.toLowerCase()] = buildOperation(endpoint, name, components)
      paths[endpoint.path] = path
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Assay',
      description: DESCRIPTION,
      version: info.version,
      contact: { name: 'Operator of this service', url: info.url },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: info.url, description: 'This service.' }],
    tags: groups.map(({ name, description }) => ({ name, description })),
    paths,
    components: {
      schemas: components,
      headers: RESPONSE_HEADERS,
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer assay_…`.' },
        session: { type: 'apiKey', in: 'cookie', name: 'assay_session', description: 'A browser session.' },
      },
    },
  }
}

const DESCRIPTION = `Assay measures which model, coding agent and reasoning level works best on a team's own code, and what it costs.

Requests carry an API key: \`Authorization: Bearer assay_…\`. Lists take \`limit\` and \`cursor\`; \`nextCursor\` of a response is the cursor of the next page. A repeated \`Idempotency-Key\` returns the first response again. Failures are a Problem (RFC 9457) with a stable \`code\`. Responses may gain fields: clients must ignore fields they do not know.`

function buildOperation(endpoint: Endpoint, tag: string, components: JsonRecord): JsonRecord {
  const responses = [...listStatuses(endpoint)].map(([status, answer]) => [
    status,
    addMediaTypes(status, buildResponse(endpoint, status, answer, components), { endpoint, components }),
  ])
  return {
    operationId: endpoint.id,
    tags: [tag],
    summary: endpoint.summary,
    description: `Access: ${endpoint.access}.`,
    security: buildSecurity(endpoint),
    parameters: [
      ...buildPathParameters(endpoint),
      ...buildQueryParameters(endpoint, components),
      ...buildHeaderParameters(endpoint),
    ],
    requestBody: buildRequestBody(endpoint, components),
    responses: Object.fromEntries(responses),
  }
}

function buildRequestBody(endpoint: Endpoint, components: JsonRecord): JsonRecord | undefined {
  const { body, upload, bodyOptional, example } = endpoint
  if (upload) return buildFileBody(upload)
  if (!body) return undefined
  const schema = nameBody(endpoint, 'Request', toJsonSchema(body, 'input', components), components)
  return { required: bodyOptional !== true, content: { 'application/json': { schema, example } } }
}

const buildFileBody = ({ mediaType, bytesMax }: NonNullable<Endpoint['upload']>): JsonRecord => ({
  required: true,
  description: `At most ${bytesMax} bytes.`,
  content: { [mediaType]: { schema: { type: 'string', contentMediaType: mediaType } } },
})

const buildSecurity = ({ access }: Endpoint): JsonRecord[] => {
  if (access === 'public') return []
  return access === 'operator' ? [{ key: [] }] : [{ key: [] }, { session: [] }]
}

const buildPathParameters = (endpoint: Endpoint): JsonRecord[] =>
  listPathParameters(endpoint.path).map((name) => ({
    name,
    in: 'path',
    required: true,
    description: getPathParameter(name).description,
    schema: { type: 'string', pattern: getPathParameter(name).pattern.source },
  }))

function buildQueryParameters(endpoint: Endpoint, components: JsonRecord): JsonRecord[] {
  if (!endpoint.query) return []
  const { properties } = toJsonSchema(endpoint.query, 'input', components)
  return Object.entries<JsonRecord>(properties as Record<string, JsonRecord>).map(
    ([name, { description, ...schema }]) => ({
      name,
      in: 'query',
      required: false,
      description,
      schema,
    }),
  )
}

const buildHeaderParameters = (endpoint: Endpoint): JsonRecord[] => [
  ...(endpoint.creates
    ? [
        buildHeaderParameter(
          'Idempotency-Key',
          255,
          'Chosen by the client. A repeated request with the same key gets the first response.',
        ),
      ]
    : []),
  ...(endpoint.events
    ? [buildHeaderParameter('Last-Event-ID', 1000, 'Resumes the stream after the event with this id.')]
    : []),
  ...(endpoint.conditional
    ? [buildHeaderParameter('If-Match', 1000, 'ETag of the version that was read. Required.')]
    : []),
]

const buildHeaderParameter = (name: string, maxLength: number, description: string): JsonRecord => ({
  name,
  in: 'header',
  required: false, // A request without If-Match gets a problem, not a validation error.
  description,
  schema: { type: 'string', maxLength },
})

const STATUS_TEXT: Record<number, string> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  204: 'Done',
  304: 'Not modified',
}

function buildResponse(
  endpoint: Endpoint,
  status: number,
  answer: EndpointStatus,
  components: JsonRecord,
): JsonRecord & { content?: JsonRecord } {
  const description =
    answer.problems.length > 0
      ? answer.problems.map(({ code, title }) => `\`${code}\`: ${title}.`).join(' ')
      : (STATUS_TEXT[status] ?? 'OK')
  const headers = buildResponseHeaders(endpoint, status)
  if (answer.schema) {
    const schema = nameBody(endpoint, 'Response', toJsonSchema(answer.schema, 'output', components), components)
    return { description, headers, content: { 'application/json': { schema } } }
  }
  if (answer.problems.length === 0) return { description, headers }
  return {
    description,
    headers,
    content: { 'application/problem+json': { schema: toJsonSchema(ProblemBody, 'output', components) } },
  }
}

/** Adds the media types of progress streams, event streams and files to a response. */
function addMediaTypes(
  status: number,
  response: JsonRecord & { content?: JsonRecord },
  { endpoint, components }: { endpoint: Endpoint; components: JsonRecord },
): JsonRecord {
  if (status >= 400) return response
  if (endpoint.media !== undefined && status === 200)
    return { ...response, content: { [endpoint.media.split(';')[0] ?? '']: { schema: { type: 'string' } } } }
  if (endpoint.download) return { ...response, content: { 'application/octet-stream': { schema: { type: 'string' } } } }
  if (endpoint.events)
    return { ...response, content: { 'text/event-stream': { schema: buildEventSchema(endpoint.events, components) } } }
  if (!endpoint.progress) return response
  const description =
    'With `Accept: text/event-stream`, status 200: events `progress` of this shape, then one `result` with this body or one `problem`. An `Idempotency-Key` identifies the same request in both forms: a repeated request gets the first `result`.'
  const schema = {
    description,
    ...nameBody(endpoint, 'Progress', toJsonSchema(endpoint.progress, 'output', components), components),
  }
  return { ...response, content: { ...response.content, 'text/event-stream': { schema } } }
}

const buildEventSchema = (events: Record<string, z.ZodType>, components: JsonRecord): JsonRecord => ({
  description: `Events: ${Object.keys(events).join(', ')}. The data of each is JSON of its own shape, in this order.`,
  anyOf: Object.values(events).map((schema) => toJsonSchema(schema, 'output', components)),
})

/** Ending of operation ids that differ only in the scope of the comparison, or in a short form of the path. */
const SCOPE_SUFFIX = /On(Benchmark|Repository)(Short)?$/

/**
 * Moves a body without an id to the components, under a name derived from its operation. Equal bodies of both scopes of
 * comparisons share one name.
 */
function nameBody(endpoint: Endpoint, role: string, schema: JsonRecord, components: JsonRecord): JsonRecord {
  if (schema.$ref !== undefined) return schema
  const named = { description: `${role} of ${endpoint.id}: ${endpoint.summary}.`, ...schema }
  const name = [endpoint.id.replace(SCOPE_SUFFIX, ''), endpoint.id]
    .map((id) => `${id.charAt(0).toUpperCase()}${id.slice(1)}${role}`)
    .find((each) => components[each] === undefined || hasEqualShape(components[each], schema))
  if (name === undefined) throw new Error(`The name of the ${role} of ${endpoint.id} is taken.`)
  components[name] ??= named
  return { $ref: `#/components/schemas/${name}` }
}

const hasEqualShape = (component: unknown, schema: JsonRecord): boolean => {
  const { description: _, ...shape } = component as JsonRecord
  const { description: __, ...other } = schema
  return JSON.stringify(shape) === JSON.stringify(other)
}

/** Converts a schema. Schemas with an id move to `components`, so that each appears once in the document. */
export function toJsonSchema(
  schema: z.ZodType,
  io: 'input' | 'output',
  components: JsonRecord,
): JsonRecord & { properties?: JsonRecord } {
  const converted = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    // Responses may gain fields; clients must accept unknown ones.
    override: ({ jsonSchema: part }) => {
      if (io === 'output' && part.additionalProperties === false) delete part.additionalProperties
    },
  })
  const { $schema, $defs, ...rest } = JSON.parse(
    JSON.stringify(converted).replaceAll('#/$defs/', '#/components/schemas/'),
  )
  for (const [id, definition] of Object.entries($defs ?? {})) components[id] ??= definition
  const { id } = schema.meta() ?? {}
  if (typeof id !== 'string') return rest
  components[id] ??= rest
  return { $ref: `#/components/schemas/${id}` }
}

type HeaderObject = { description: string; schema: { type: 'string' } }

const describeHeader = (description: string): HeaderObject => ({ description, schema: { type: 'string' } })

/** Headers of responses that clients may rely on, as components of the OpenAPI document. */
const RESPONSE_HEADERS = {
  'X-Request-Id': describeHeader(
    "Id of the request, as in the server's log. A valid `X-Request-Id` of the request is kept.",
  ),
  RateLimit: describeHeader(
    'Remaining requests and seconds until all are available again. Absent if rate limits are off.',
  ),
  'RateLimit-Policy': describeHeader('Number of requests and window of the rate limit. Absent if rate limits are off.'),
  ETag: describeHeader('Version of the response. `If-None-Match` with it is answered with 304.'),
  'Retry-After': describeHeader('Seconds to wait before the next request.'),
  'WWW-Authenticate': describeHeader('The authentication scheme, `Bearer`.'),
  'Content-Disposition': describeHeader('Attachment, with the name of the file.'),
}

type HeaderName = keyof typeof RESPONSE_HEADERS
type HeaderRef = { $ref: string }

/** Lists the headers of a response of an endpoint. */
function buildResponseHeaders(endpoint: Endpoint, status: number): Partial<Record<HeaderName, HeaderRef>> {
  const isRead = endpoint.method === 'GET' && (status === 200 || status === 304) && endpoint.events === undefined
  const names: HeaderName[] = [
    'X-Request-Id',
    ...(status < 300 || status === 429 ? (['RateLimit', 'RateLimit-Policy'] as const) : []),
    ...(isRead ? (['ETag'] as const) : []),
    ...(endpoint.download && status === 200 ? (['Content-Disposition'] as const) : []),
    ...(status === 401 ? (['WWW-Authenticate'] as const) : []),
    ...(status === 429 || status === 503 ? (['Retry-After'] as const) : []),
  ]
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

/** A status of an endpoint: with a body, with one of these problems, or empty. */
export type EndpointStatus = { schema: z.ZodType | null; problems: problems.ProblemKind[] }

/** Lists every status of an endpoint: those it declares and those implied by its shape. */
export function listStatuses(endpoint: Endpoint): Map<number, EndpointStatus> {
  const statuses = new Map<number, EndpointStatus>()
  for (const [status, schema] of Object.entries(endpoint.answers))
    statuses.set(Number(status), { schema, problems: [] })
  if (endpoint.method === 'GET' && statuses.has(200) && endpoint.events === undefined && !endpoint.download)
    statuses.set(304, { schema: null, problems: [] })

  for (const kind of new Set([...impliedProblems(endpoint), ...(endpoint.problems ?? [])])) {
    const status = statuses.get(kind.status) ?? { schema: null, problems: [] }
    statuses.set(kind.status, { ...status, problems: [...status.problems, kind] })
  }
  return new Map([...statuses].sort(([a], [b]) => a - b))
}

const impliedProblems = (endpoint: Endpoint): problems.ProblemKind[] => [
  problems.rateLimited,
  ...accessProblems(endpoint),
  ...requestProblems(endpoint),
]

function accessProblems({ access, method, path }: Endpoint): problems.ProblemKind[] {
  const implied: problems.ProblemKind[] = []
  if (access !== 'public') implied.push(problems.unauthenticated)
  if (['write', 'admin', 'operator'].includes(access)) implied.push(problems.forbidden)
  if (method !== 'GET' && access !== 'public' && access !== 'operator') implied.push(problems.csrfTokenInvalid)
  if (path.includes('{')) implied.push(problems.notFound)
  return implied
}

function requestProblems(endpoint: Endpoint): problems.ProblemKind[] {
  const { body, upload, query, creates, showsSecret, conditional } = endpoint
  const implied: problems.ProblemKind[] = []
  if (conditional) implied.push(problems.preconditionFailed, problems.preconditionRequired)
  if (body ?? upload) implied.push(problems.malformedBody, problems.bodyTooLarge, problems.unsupportedMediaType)
  if (body ?? query ?? creates) implied.push(problems.invalidRequest)
  if (creates) implied.push(problems.idempotencyKeyReused)
  if (creates && showsSecret) implied.push(problems.idempotencyKeySpent)
  return implied
}

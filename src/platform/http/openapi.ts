import { z } from 'zod'
import type { ProblemKind } from '../problem.ts'
import { type Endpoint, pathParameterNames, pathParameterPattern } from './endpoint.ts'
import { type Status, statusesOf } from './statuses.ts'

/** Endpoints that belong together, under the heading that readers see. */
export type EndpointGroup = { name: string; endpoints: Endpoint[] }

type Json = Record<string, unknown>

export const Problem = z
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

/** OpenAPI 3.1, from the very schemas that validate. */
export function openApiDocument(groups: EndpointGroup[], info: { version: string; url: string }): Json {
  const components: Json = {}
  const paths: Record<string, Json> = {}
  for (const { name, endpoints } of groups) {
    for (const endpoint of endpoints) {
      const path = paths[endpoint.path] ?? {}
      path[endpoint.method.toLowerCase()] = operation(endpoint, name, components)
      paths[endpoint.path] = path
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Assay', version: info.version, license: { name: 'Apache-2.0', identifier: 'Apache-2.0' } },
    servers: [{ url: info.url }],
    tags: groups.map(({ name }) => ({ name })),
    paths,
    components: {
      schemas: components,
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key: `Authorization: Bearer assay_…`.' },
        session: { type: 'apiKey', in: 'cookie', name: 'assay_session', description: 'A browser session.' },
      },
    },
  }
}

function operation(endpoint: Endpoint, tag: string, components: Json): Json {
  const responses = [...statusesOf(endpoint)].map(([status, answer]) => [
    status,
    withEvents(status, response(status, answer, components), { endpoint, components }),
  ])
  return {
    operationId: endpoint.id,
    tags: [tag],
    summary: endpoint.summary,
    description: `Access: ${endpoint.access}.`,
    security: security(endpoint),
    parameters: [...pathParameters(endpoint), ...queryParameters(endpoint, components), ...headerParameters(endpoint)],
    ...(endpoint.body ? { requestBody: requestBody(endpoint, endpoint.body, components) } : {}),
    ...(endpoint.upload ? { requestBody: fileBody(endpoint.upload) } : {}),
    responses: Object.fromEntries(responses),
  }
}

const requestBody = (endpoint: Endpoint, schema: z.ZodType, components: Json): Json => ({
  required: endpoint.bodyOptional !== true,
  content: {
    'application/json': {
      schema: jsonSchema(schema, 'input', components),
      ...(endpoint.example ? { example: endpoint.example } : {}),
    },
  },
})

const fileBody = ({ mediaType, bytesMax }: NonNullable<Endpoint['upload']>): Json => ({
  required: true,
  description: `At most ${bytesMax} bytes.`,
  content: { [mediaType]: { schema: { type: 'string', contentMediaType: mediaType } } },
})

const security = ({ access }: Endpoint): Json[] => {
  if (access === 'public') return []
  return access === 'operator' ? [{ key: [] }] : [{ key: [] }, { session: [] }]
}

const pathParameters = (endpoint: Endpoint): Json[] =>
  pathParameterNames(endpoint.path).map((name) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', pattern: pathParameterPattern(name).source },
  }))

function queryParameters(endpoint: Endpoint, components: Json): Json[] {
  if (!endpoint.query) return []
  const { properties } = jsonSchema(endpoint.query, 'input', components)
  return Object.entries(properties ?? {}).map(([name, schema]) => ({ name, in: 'query', required: false, schema }))
}

const headerParameters = (endpoint: Endpoint): Json[] => [
  ...(endpoint.creates ? [header('Idempotency-Key', 255)] : []),
  ...(endpoint.events ? [header('Last-Event-ID', 1000)] : []),
  ...(endpoint.conditional ? [header('If-Match', 1000)] : []),
]

const header = (name: string, maxLength: number): Json => ({
  ...{ name, in: 'header', required: false, schema: { type: 'string', maxLength } },
})

const STATUS_TEXT: Record<number, string> = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  204: 'Done',
  304: 'Not modified',
}

function response(status: number, answer: Status, components: Json): Json & { content?: Json } {
  const description = answer.problems.length > 0 ? answer.problems.map(line).join(' ') : (STATUS_TEXT[status] ?? 'OK')
  if (answer.schema) return { description, content: json(answer.schema, 'output', components) }
  if (answer.problems.length === 0) return { description }
  return { description, content: { 'application/problem+json': { schema: jsonSchema(Problem, 'output', components) } } }
}

/** Of a request that can be followed while it is worked on, a stream, or a file. */
function withEvents(
  status: number,
  described: Json & { content?: Json },
  { endpoint, components }: { endpoint: Endpoint; components: Json },
): Json {
  if (status >= 400) return described
  if (endpoint.media !== undefined && status === 200)
    return { ...described, content: { [endpoint.media.split(';')[0] ?? '']: { schema: { type: 'string' } } } }
  if (endpoint.download)
    return { ...described, content: { 'application/octet-stream': { schema: { type: 'string' } } } }
  if (endpoint.events)
    return { ...described, content: { 'text/event-stream': { schema: anyEvent(endpoint.events, components) } } }
  if (!endpoint.progress) return described
  const description =
    'With `Accept: text/event-stream`, status 200: events `progress` of this shape, then one `result` with this body or one `problem`. An `Idempotency-Key` stands for the same request in both forms: repeated, it is answered with the first `result`.'
  const schema = { description, ...jsonSchema(endpoint.progress, 'output', components) }
  return { ...described, content: { ...described.content, 'text/event-stream': { schema } } }
}

const anyEvent = (events: Record<string, z.ZodType>, components: Json): Json => ({
  description: `Events: ${Object.keys(events).join(', ')}. The data of each is JSON of its own shape, in this order.`,
  anyOf: Object.values(events).map((schema) => jsonSchema(schema, 'output', components)),
})

const line = (problem: ProblemKind): string => `\`${problem.code}\`: ${problem.title}.`

const json = (schema: z.ZodType, io: 'input' | 'output', components: Json): Json => ({
  'application/json': { schema: jsonSchema(schema, io, components) },
})

/** Schemas with an id move to components, so that each shape stands in the document once. */
export function jsonSchema(schema: z.ZodType, io: 'input' | 'output', components: Json): Json & { properties?: Json } {
  const made = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    // What we send may grow; a client must not refuse a field it does not know.
    override: ({ jsonSchema: part }) => {
      if (io === 'output' && part.additionalProperties === false) delete part.additionalProperties
    },
  })
  const { $schema, $defs, ...rest } = JSON.parse(JSON.stringify(made).replaceAll('#/$defs/', '#/components/schemas/'))
  for (const [id, definition] of Object.entries($defs ?? {})) components[id] ??= definition
  const { id } = schema.meta() ?? {}
  if (typeof id !== 'string') return rest
  components[id] ??= rest
  return { $ref: `#/components/schemas/${id}` }
}

/** The part of JSON Schema that the OpenAPI document uses. */
export type SdkSchema = {
  type?: string | string[]
  properties?: Record<string, SdkSchema>
  required?: string[]
  items?: SdkSchema
  additionalProperties?: SdkSchema | boolean
  enum?: unknown[]
  const?: unknown
  anyOf?: SdkSchema[]
  oneOf?: SdkSchema[]
  allOf?: SdkSchema[]
  $ref?: string
  description?: string
}

/** `events`: a stream of server-sent events. `file`: a file or a text. `none`: no body. */
type ResponseKind = 'json' | 'events' | 'file' | 'none'

/** An operation of the API, as generated clients need it. */
export type SdkOperation = {
  id: string
  summary: string
  method: string
  path: string
  params: string[]
  query: Record<string, SdkSchema>
  body: { schema: SdkSchema; required: boolean } | undefined
  /** Media type of an uploaded file. */
  upload: string | undefined
  kind: ResponseKind
  response: SdkSchema | undefined
  /** True if the operation takes an idempotency key, so that creating something can be repeated safely. */
  creates: boolean
  /** True if the operation requires the header If-Match. */
  conditional: boolean
}

export type SdkContract = { schemas: Record<string, SdkSchema>; operations: SdkOperation[] }

type MediaTypes = Record<string, { schema: SdkSchema }>
type OpenApiParameter = { name: string; in: string; schema: SdkSchema; description?: string }
type OpenApiOperation = {
  operationId: string
  summary: string
  parameters: OpenApiParameter[]
  requestBody?: { required: boolean; content: MediaTypes }
  responses: Record<string, { content?: MediaTypes }>
}
type OpenApiDocument = {
  paths: Record<string, Record<string, OpenApiOperation>>
  components: { schemas: Record<string, SdkSchema> }
}

/** Reads the operations and named schemas from the OpenAPI document. */
export function readContract(json: unknown): SdkContract {
  const document = json as OpenApiDocument
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => toOperation(method.toUpperCase(), path, operation)),
  )
  return { schemas: document.components.schemas, operations }
}

function toOperation(method: string, path: string, operation: OpenApiOperation): SdkOperation {
  const { operationId: id, summary, parameters, requestBody } = operation
  const parametersIn = (location: string) => parameters.filter((parameter) => parameter.in === location)
  const headers = parametersIn('header').map(({ name }) => name)
  const json = requestBody?.content['application/json']
  const [upload] = json ? [] : Object.keys(requestBody?.content ?? {})
  return {
    id,
    summary,
    method,
    path,
    params: parametersIn('path').map(({ name }) => name),
    query: Object.fromEntries(
      parametersIn('query').map(({ name, schema, description }) => [name, addDescription(schema, description)]),
    ),
    body: json && { schema: json.schema, required: requestBody?.required ?? false },
    upload,
    creates: headers.includes('Idempotency-Key'),
    conditional: headers.includes('If-Match'),
    ...toResponse(operation),
  }
}

const addDescription = (schema: SdkSchema, description: string | undefined): SdkSchema =>
  description === undefined ? schema : { ...schema, description }

/** Returns the first successful response with a body. All successful responses of an operation have the same shape. */
function toResponse({ responses }: OpenApiOperation): Pick<SdkOperation, 'kind' | 'response'> {
  const [content] = Object.entries(responses)
    .filter(([status]) => status.startsWith('2'))
    .flatMap(([, response]) => (response.content ? [response.content] : []))
  const json = content?.['application/json']
  if (json) return { kind: 'json', response: json.schema }
  const events = content?.['text/event-stream']
  if (events) return { kind: 'events', response: events.schema }
  return { kind: content === undefined ? 'none' : 'file', response: undefined }
}

/** Returns the name of the schema that a reference points to. */
export const toReferencedName = ({ $ref = '' }: SdkSchema): string => $ref.split('/').at(-1) ?? ''

/** Converts a name for Python: `createKey` becomes `create_key`. */
export const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

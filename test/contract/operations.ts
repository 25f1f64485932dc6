import type { TestApp, TestResponse } from '../support/app.ts'
import { buildArchive, smallTask } from '../support/archives.ts'

type BodySchema = { $ref?: string; type?: string; properties?: Record<string, unknown> }

export type ApiOperation = {
  id: string
  method: string
  path: string
  access: string
  parameters: { name: string; in: string }[]
  body?: { schema: BodySchema; example?: Record<string, unknown> }
  /** Content type of an uploaded file. */
  upload?: string
  statuses: number[]
}

/** Reads the operations from the service's OpenAPI document. */
export async function operationsOf(app: TestApp): Promise<ApiOperation[]> {
  const { body } = await app.fetch('/openapi.json')
  return Object.entries<Record<string, never>>(body.paths).flatMap(([path, methods]) =>
    Object.entries<Record<string, never>>(methods).map(([method, operation]) => ({
      id: String(operation.operationId),
      method: method.toUpperCase(),
      path,
      access: /Access: (\w+)/.exec(String(operation.description))?.[1] ?? '',
      parameters: operation.parameters ?? [],
      ...bodyOf(operation.requestBody, body.components.schemas),
      statuses: Object.keys(operation.responses ?? {}).map(Number),
    })),
  )
}

function bodyOf(
  requestBody: { content: Record<string, NonNullable<ApiOperation['body']>> } | undefined,
  schemas: Record<string, BodySchema>,
): Pick<ApiOperation, 'body' | 'upload'> {
  const [[mediaType, body] = []] = Object.entries(requestBody?.content ?? {})
  if (mediaType === undefined || body === undefined) return {}
  const schema = schemas[body.schema.$ref?.split('/').at(-1) ?? ''] ?? body.schema
  return mediaType === 'application/json' ? { body: { ...body, schema } } : { upload: mediaType }
}

export type OperationOptions = {
  key?: string | null
  params?: Record<string, string>
  headers?: Record<string, string>
  query?: string
  text?: string | undefined
  file?: Uint8Array
}

/** Sends an operation with its example body unless another is given. Path parameters are not encoded. */
export function send(app: TestApp, operation: ApiOperation, sending: OperationOptions = {}): Promise<TestResponse> {
  const params: Record<string, string> = { org: 'local', ...sending.params }
  const path = operation.path.replaceAll(
    /\{([^}]+)\}/g,
    (_, name) => params[name] ?? '00000000-0000-4000-8000-000000000000',
  )
  const { type, body } = contentOf(operation, sending)
  const key = sending.key === undefined ? app.adminKey : sending.key
  return app.fetch(path + (sending.query ?? ''), {
    method: operation.method,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(type === undefined ? {} : { 'content-type': type }),
      ...sending.headers,
    },
    ...(body === undefined ? {} : { body }),
  })
}

/** Returns the example body, or a small archive for an upload. */
function contentOf({ body, upload }: ApiOperation, { text, file }: OperationOptions) {
  if (upload !== undefined) return { type: upload, body: new Uint8Array(file ?? buildArchive({ hello: smallTask() })) }
  const content = text ?? (body ? JSON.stringify(body.example ?? {}) : undefined)
  return { type: content === undefined ? undefined : 'application/json', body: content }
}

import type { Answered, TestApp } from '../support/app.ts'
import { archiveOf, smallTask } from '../support/archives.ts'

type Schema = { type?: string; properties?: Record<string, unknown> }

export type Operation = {
  id: string
  method: string
  path: string
  access: string
  parameters: { name: string; in: string }[]
  body?: { schema: Schema; example?: Record<string, unknown> }
  /** The type of the file that it takes. */
  upload?: string
  statuses: number[]
}

/** What the service says of itself, as a client would read it. */
export async function operationsOf(app: TestApp): Promise<Operation[]> {
  const { body } = await app.fetch('/openapi.json')
  return Object.entries<Record<string, never>>(body.paths).flatMap(([path, methods]) =>
    Object.entries<Record<string, never>>(methods).map(([method, operation]) => ({
      id: String(operation.operationId),
      method: method.toUpperCase(),
      path,
      access: /Access: (\w+)/.exec(String(operation.description))?.[1] ?? '',
      parameters: operation.parameters ?? [],
      ...bodyOf(operation.requestBody),
      statuses: Object.keys(operation.responses ?? {}).map(Number),
    })),
  )
}

function bodyOf(
  requestBody: { content: Record<string, NonNullable<Operation['body']>> } | undefined,
): Pick<Operation, 'body' | 'upload'> {
  const [[mediaType, body] = []] = Object.entries(requestBody?.content ?? {})
  if (mediaType === undefined || body === undefined) return {}
  return mediaType === 'application/json' ? { body } : { upload: mediaType }
}

export type Sending = {
  key?: string | null
  params?: Record<string, string>
  headers?: Record<string, string>
  query?: string
  text?: string
  file?: Uint8Array
}

/** Sends an operation; its example is the body unless another text is given. Path parameters are put in as they are. */
export function send(app: TestApp, operation: Operation, sending: Sending = {}): Promise<Answered> {
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

/** Its example, or a small archive where a file is taken. */
function contentOf({ body, upload }: Operation, { text, file }: Sending) {
  if (upload !== undefined) return { type: upload, body: new Uint8Array(file ?? archiveOf({ hello: smallTask() })) }
  const content = text ?? (body ? JSON.stringify(body.example ?? {}) : undefined)
  return { type: content === undefined ? undefined : 'application/json', body: content }
}

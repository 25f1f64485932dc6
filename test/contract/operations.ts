import type { Answered, TestApp } from '../support/app.ts'

type Schema = { type?: string; properties?: Record<string, unknown> }

export type Operation = {
  id: string
  method: string
  path: string
  access: string
  parameters: { name: string; in: string }[]
  body?: { schema: Schema; example?: Record<string, unknown> }
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

function bodyOf(requestBody: { content: Record<string, NonNullable<Operation['body']>> } | undefined): {
  body?: NonNullable<Operation['body']>
} {
  const body = requestBody?.content['application/json']
  return body ? { body } : {}
}

export type Sending = {
  key?: string | null
  params?: Record<string, string>
  headers?: Record<string, string>
  query?: string
  text?: string
}

/** Sends an operation; its example is the body unless another text is given. Path parameters are put in as they are. */
export function send(app: TestApp, operation: Operation, sending: Sending = {}): Promise<Answered> {
  const params: Record<string, string> = { org: 'local', ...sending.params }
  const path = operation.path.replaceAll(
    /\{([^}]+)\}/g,
    (_, name) => params[name] ?? '00000000-0000-4000-8000-000000000000',
  )
  const body = sending.text ?? (operation.body ? JSON.stringify(operation.body.example ?? {}) : undefined)
  const key = sending.key === undefined ? app.adminKey : sending.key
  return app.fetch(path + (sending.query ?? ''), {
    method: operation.method,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...sending.headers,
    },
    ...(body === undefined ? {} : { body }),
  })
}

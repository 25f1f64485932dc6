import type { z } from 'zod'
import type { ProblemKind } from '../problem.ts'

/** Who may call: anyone, the operator, any key, or a key of the workspace with at least this permission. */
export type Access = 'public' | 'operator' | 'key' | 'read' | 'write' | 'admin'

/** One operation on the wire, as a value. Server, client, OpenAPI and tests are all read from it. */
export type Endpoint = {
  id: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: `/${string}`
  summary: string
  access: Access
  query?: z.ZodObject
  body?: z.ZodObject
  /** A body that is accepted. It stands in the reference, and the contract tests send it. */
  example?: Record<string, unknown>
  /** The body of each status; null where there is none. */
  answers: Record<number, z.ZodType | null>
  /** What can go wrong beyond that which goes wrong everywhere. */
  problems?: readonly ProblemKind[]
  /** A POST that makes something new: takes `Idempotency-Key`. */
  creates?: true
  /** The answer shows a secret once: it is never stored, logged or cached. */
  showsSecret?: true
  /** Limited per address even where limits are off. */
  signIn?: true
}

export const endpoint = <const E extends Endpoint>(value: E): E => value

type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never

export type Params<E extends Endpoint> = Record<Names<E['path']>, string>
export type Query<E extends Endpoint> = E['query'] extends z.ZodType ? z.output<E['query']> : Record<never, never>
export type Body<E extends Endpoint> = E['body'] extends z.ZodType ? z.output<E['body']> : undefined

type Content<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined

export type Reply<E extends Endpoint> = {
  [Status in keyof E['answers']]: {
    status: Status
    body: Content<E['answers'][Status]>
    headers?: Record<string, string> | undefined
  }
}[keyof E['answers']]

export const reply = <Status extends number, Content = undefined>(
  status: Status,
  body?: Content,
  headers?: Record<string, string>,
) => ({ status, body: body as Content, headers })

const SLUG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** What each path parameter may look like. Anything else is not an address of ours: 404. */
const PATH_PARAMETERS: Record<string, RegExp> = {
  org: SLUG,
  keyId: UUID,
  credentialId: UUID,
}

export const pathParameterPattern = (name: string): RegExp => {
  const pattern = PATH_PARAMETERS[name]
  if (!pattern) throw new Error(`The path parameter {${name}} has no pattern in endpoint.ts.`)
  return pattern
}

export const pathParameterNames = (path: string): string[] =>
  [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name ?? '')

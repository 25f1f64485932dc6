import type { z } from 'zod'
import type { ProblemKind } from '../problem.ts'

/** One server-sent event. `data` travels as JSON. */
export type ServerEvent = { event: string; data: unknown; id?: string }

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
  /** The body is a file, and received as a whole before anything is done with it. */
  upload?: { mediaType: 'application/gzip'; bytesMax: number }
  /** A request without any body stands for `{}`. */
  bodyOptional?: true
  /** A body that is accepted. It stands in the reference, and the contract tests send it. */
  example?: Record<string, unknown>
  /** The body of each status; null where there is none. */
  answers: Record<number, z.ZodType | null>
  /** What can go wrong beyond that which goes wrong everywhere. */
  problems?: readonly ProblemKind[]
  /**
   * The shape of a `progress` event. With `Accept: text/event-stream` the answer is a stream of them that ends with one
   * `result`, the body that the answer would have had, or one `problem`.
   */
  progress?: z.ZodType
  /** The answer is a stream of server-sent events of these shapes, by name. `Last-Event-ID` goes on where a line broke. */
  events?: Record<string, z.ZodType>
  /** The answer is a file. Whatever is in it, a browser saves it and does not show it. */
  download?: true
  /** The answer is a text or a picture of this media type. */
  media?: string
  /** Pages of every origin may read the answers. */
  anywhere?: true
  /** A POST that makes something new: takes `Idempotency-Key`. */
  creates?: true
  /** Changes what is there: takes `If-Match` with the ETag of what was read. */
  conditional?: true
  /** The answer shows a secret once: it is never stored, logged or cached. */
  showsSecret?: true
  /** Name of the body field with the secret. Failed attempts are limited even where rate limits are off. */
  signIn?: string
}

export const endpoint = <const E extends Endpoint>(value: E): E => value

type Names<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}` ? Name | Names<Rest> : never

export type Params<E extends Endpoint> = Record<Names<E['path']>, string>
export type Query<E extends Endpoint> = E['query'] extends z.ZodType ? z.output<E['query']> : Record<never, never>
export type Body<E extends Endpoint> = E['body'] extends z.ZodType ? z.output<E['body']> : undefined

/** A file that was sent in. It is gone when the request is answered. */
export type Upload = { path: string; digest: `sha256:${string}`; bytes: number }
export type UploadOf<E extends Endpoint> = E['upload'] extends object ? Upload : undefined

type Content<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined

export type Reply<E extends Endpoint> = {
  [Status in keyof E['answers']]: {
    status: Status
    body: Content<E['answers'][Status]>
    headers?: Record<string, string> | undefined
    events?: AsyncIterable<ServerEvent>
    bytes?: AsyncIterable<Uint8Array>
    ready?: ReadyAnswer
  }
}[keyof E['answers']]

/** An answer that was made before, as it goes over the wire. Its ETag stands for exactly these bytes. */
export type ReadyAnswer = { body: Uint8Array<ArrayBuffer>; etag: string; type: string }

export type Progress<E extends Endpoint> = E['progress'] extends z.ZodType ? z.output<E['progress']> : never

export const reply = <Status extends number, Content = undefined>(
  status: Status,
  body?: Content,
  headers?: Record<string, string>,
) => ({ status, body: body as Content, headers })

export const replyEvents = (events: AsyncIterable<ServerEvent>) => ({ status: 200 as const, body: undefined, events })

export const replyReady = (ready: ReadyAnswer, headers: Record<string, string>) => ({
  ...{ status: 200 as const, body: undefined as never, ready, headers },
})

export const replyFile = (file: {
  name: string
  mediaType: string
  bytes: number
  content: AsyncIterable<Uint8Array>
  etag?: string
}) => ({
  status: 200 as const,
  body: undefined,
  bytes: file.content,
  headers: {
    'content-type': file.mediaType,
    'content-length': String(file.bytes),
    'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(file.name)}`,
    'content-security-policy': 'sandbox',
    ...(file.etag === undefined ? {} : { etag: file.etag }),
  },
})

const SLUG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** What each path parameter may look like. Anything else is not an address of ours: 404. */
const PATH_PARAMETERS: Record<string, RegExp> = {
  org: SLUG,
  datasetOrg: SLUG,
  dataset: SLUG,
  keyId: UUID,
  callId: UUID,
  credentialId: UUID,
  comparisonId: UUID,
  trialId: UUID,
  // A name in a list of names. It never becomes a path.
  artifact: /^[^\p{Cc}]{1,255}$/u,
  owner: SLUG,
  name: /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/,
  runId: /^batch-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
  taskId: SLUG,
  slug: SLUG,
  releaseId: UUID,
  webhookId: UUID,
  deliveryId: UUID,
  publisher: SLUG,
  login: SLUG,
  // A normalised relative path. It is looked up in a list, and never becomes a path of this machine.
  path: /^(?!.*(?:^|\/)\.{0,2}(?:\/|$))[^\p{Cc}\\]{1,1024}$/u,
}

export const pathParameterPattern = (name: string): RegExp => {
  const pattern = PATH_PARAMETERS[name]
  if (!pattern) throw new Error(`The path parameter {${name}} has no pattern in endpoint.ts.`)
  return pattern
}

/** One that may hold slashes. It stands at the end of its address. */
export const isRest = (name: string): boolean => name === 'path'

export const pathParameterNames = (path: string): string[] =>
  [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name ?? '')

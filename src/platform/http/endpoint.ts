import type { z } from 'zod'
import type { ProblemKind } from '../problem.ts'

/** A server-sent event. `data` is serialised as JSON. */
export type ServerEvent = { event: string; data: unknown; id?: string }

/** Callers that are admitted: anyone, the operator, any key, or a key of the workspace with at least this permission. */
export type Access = 'public' | 'operator' | 'key' | 'read' | 'write' | 'admin'

/** An operation of the API as a value. Server, client, OpenAPI document and tests are derived from it. */
export type Endpoint = {
  id: string
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  path: `/${string}`
  summary: string
  access: Access
  query?: z.ZodObject
  body?: z.ZodObject
  /** The body is a file. It is received completely before the handler runs. */
  upload?: { mediaType: 'application/gzip'; bytesMax: number }
  /** A request without a body is read as `{}`. */
  bodyOptional?: true
  /** A valid body, shown in the reference and sent by the contract tests. */
  example?: Record<string, unknown>
  /** Body of each status; null for none. */
  answers: Record<number, z.ZodType | null>
  /** Problems in addition to those that `listStatuses` derives from the other fields. */
  problems?: readonly ProblemKind[]
  /**
   * Shape of a `progress` event. With `Accept: text/event-stream` the response is a stream of them that ends with one
   * `result`, the body of the ordinary response, or one `problem`.
   */
  progress?: z.ZodType
  /** The response is a stream of server-sent events of these shapes, by name. `Last-Event-ID` resumes it. */
  events?: Record<string, z.ZodType>
  /** The response is a file, which browsers save and never render. */
  download?: true
  /** The response is a text or a picture of this media type. */
  media?: string
  /** CORS: pages of every origin may read the responses. */
  crossOrigin?: true
  /** A POST that creates something: accepts `Idempotency-Key`. */
  creates?: true
  /** Changes a resource: requires `If-Match` with the ETag of the version that was read. */
  conditional?: true
  /** The response shows a secret once: it is never stored, logged or cached. */
  showsSecret?: true
  /** Set for a sign-in: name of the body field with the secret. Failed attempts are limited even when rate limits are off. */
  signIn?: string
}

/** Declares an endpoint. Its literal types determine the types of params, body and answers. */
export const endpoint = <const E extends Endpoint>(value: E): E => value

type PathParameterNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathParameterNames<Rest>
  : never

export type Params<E extends Endpoint> = Record<PathParameterNames<E['path']>, string>
export type Query<E extends Endpoint> = E['query'] extends z.ZodType ? z.output<E['query']> : Record<never, never>
export type Body<E extends Endpoint> = E['body'] extends z.ZodType ? z.output<E['body']> : undefined

/** A received file. It is deleted after the request. */
export type Upload = { path: string; digest: `sha256:${string}`; bytes: number }
export type UploadOf<E extends Endpoint> = E['upload'] extends object ? Upload : undefined

type ResponseBody<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined

export type Reply<E extends Endpoint> = {
  [Status in keyof E['answers']]: {
    status: Status
    body: ResponseBody<E['answers'][Status]>
    headers?: Record<string, string> | undefined
    events?: AsyncIterable<ServerEvent>
    bytes?: AsyncIterable<Uint8Array>
    cached?: CachedResponse
  }
}[keyof E['answers']]

/** A stored response body. Its ETag identifies exactly these bytes. */
export type CachedResponse = { body: Uint8Array<ArrayBuffer>; etag: string; type: string }

export type Progress<E extends Endpoint> = E['progress'] extends z.ZodType ? z.output<E['progress']> : never

export const reply = <Status extends number, Content = undefined>(
  status: Status,
  body?: Content,
  headers?: Record<string, string>,
) => ({ status, body: body as Content, headers })

export const replyEvents = (events: AsyncIterable<ServerEvent>) => ({ status: 200 as const, body: undefined, events })

/** Replies with a stored body, whose ETag is known. */
export const replyCached = (cached: CachedResponse, headers: Record<string, string>) => ({
  status: 200 as const,
  body: undefined as never,
  cached,
  headers,
})

export const replyFile = (file: {
  name: string
  mediaType: string
  bytes: number
  content: AsyncIterable<Uint8Array>
  etag?: string
  cacheControl?: string
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
    ...(file.cacheControl === undefined ? {} : { 'cache-control': file.cacheControl }),
  },
})

const SLUG = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const TASK_NAME = /^(?!\.{1,2}$)[^\p{Cc}/\\]{1,255}$/u
const SETTING = /^[^\p{Cc}]{1,500}$/u

type PathParameter = { pattern: RegExp; description: string }

/** Pattern of each path parameter. A path with any other value is not found (404). */
const PATH_PARAMETERS: Record<string, PathParameter> = {
  org: { pattern: SLUG, description: 'Login of the workspace.' },
  page: { pattern: SLUG, description: 'Name of a page of the documentation.' },
  datasetOrg: { pattern: SLUG, description: 'First part of the name of a dataset.' },
  dataset: { pattern: SLUG, description: 'Second part of the name of a dataset.' },
  // Names of tasks in registries, looked up in a list.
  taskOrg: { pattern: TASK_NAME, description: 'First part of the name of a task.' },
  task: { pattern: TASK_NAME, description: 'Second part of the name of a task.' },
  keyId: { pattern: UUID, description: 'Id of an API key.' },
  callId: { pattern: UUID, description: 'Id of a model call.' },
  credentialId: { pattern: UUID, description: 'Id of a credential.' },
  comparisonId: { pattern: UUID, description: 'Id of a comparison.' },
  baseId: { pattern: UUID, description: 'Id of the earlier comparison.' },
  trialId: { pattern: UUID, description: 'Id of a trial.' },
  // Looked up in a list of names, never used as a file path.
  artifact: { pattern: /^[^\p{Cc}]{1,255}$/u, description: 'Name of an artifact of the trial.' },
  // Ids of settings, looked up in a list.
  a: { pattern: SETTING, description: 'Id of the first setting.' },
  b: { pattern: SETTING, description: 'Id of the second setting.' },
  owner: { pattern: SLUG, description: 'First part of the name of a repository.' },
  name: { pattern: /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}$/, description: 'Second part of the name.' },
  runId: {
    pattern: /^batch-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/,
    description: 'Id of a batch.',
  },
  taskId: { pattern: SLUG, description: 'Id of a task, unique within its batch or release.' },
  slug: { pattern: SLUG, description: 'Part of the name after `custom/`.' },
  releaseId: { pattern: UUID, description: 'Id of a release.' },
  webhookId: { pattern: UUID, description: 'Id of a webhook.' },
  deliveryId: { pattern: UUID, description: 'Id of a delivery.' },
  publisher: { pattern: SLUG, description: 'Login of the workspace that published.' },
  login: { pattern: SLUG, description: 'Login of a publisher.' },
  font: { pattern: SLUG, description: 'File name of a font.' },
  // A normalised relative path. Looked up in a list, never used as a file path.
  path: {
    pattern: /^(?!.*(?:^|\/)\.{0,2}(?:\/|$))[^\p{Cc}\\]{1,1024}$/u,
    description: 'Relative path of a file. May contain slashes.',
  },
}

export const getPathParameter = (name: string): PathParameter => {
  const parameter = PATH_PARAMETERS[name]
  if (!parameter) throw new Error(`Path parameter {${name}} has no pattern. Add one to PATH_PARAMETERS.`)
  return parameter
}

/** Returns true for a parameter that may contain slashes. It must be the last of its path. */
export const isCatchAll = (name: string): boolean => name === 'path'

export const listPathParameters = (path: string): string[] =>
  [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name ?? '')

/** Rejects duplicates in a list and reports their positions. */
export const uniqueList = <Item extends z.ZodType<string>>(list: z.ZodArray<Item>): z.ZodArray<Item> =>
  list
    .check(({ value, issues }) => {
      for (const [index, item] of value.entries()) {
        if (value.indexOf(item) === index) continue
        issues.push({ ...DUPLICATE, input: item, path: [index] })
      }
    })
    .meta({ uniqueItems: true })

const DUPLICATE = {
  code: 'custom',
  message: 'must not repeat an earlier entry',
  params: { code: 'duplicate' },
} as const

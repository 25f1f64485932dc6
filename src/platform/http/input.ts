import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { z } from 'zod'
import { BlobRefused } from '../blobs/blob.ts'
import { type SpooledFile, spool } from '../blobs/spool.ts'
import {
  bodyTooLarge,
  type FieldError,
  invalidRequest,
  malformedBody,
  Problem,
  requestTimeout,
  toPointerStep,
  unsupportedMediaType,
} from '../problem.ts'
import { findStringEnd } from '../untrusted-json.ts'
import type { Endpoint } from './endpoint.ts'

const BODY_BYTES_MAX = 2 * 1024 * 1024
/** Limit for operations that need no key, where anyone could send large bodies. */
const PUBLIC_BODY_BYTES_MAX = 16 * 1024

export type JsonBodyOptions = { timeoutMs: number; isPublic: boolean; isOptional: boolean }

/** Reads a JSON body. Checks in this order: 413, 415, 408, 400. A chunked body is cut off at the size limit. */
export async function readJson(request: Request, options: JsonBodyOptions): Promise<unknown> {
  if (options.isOptional && hasNoBody(request)) return {}
  const bytesMax = options.isPublic ? PUBLIC_BODY_BYTES_MAX : BODY_BYTES_MAX
  if (Number(request.headers.get('content-length') ?? 0) > bytesMax) throw bodyTooLargeProblem(bytesMax)
  requireMediaType(request, 'application/json')
  const value = parseBody(await readLimitedBody(request, options.timeoutMs, bytesMax))
  requireStorableText(value)
  return value
}

const hasNoBody = ({ headers }: Request): boolean =>
  !headers.has('transfer-encoding') && Number(headers.get('content-length') ?? 0) === 0

const bodyTooLargeProblem = (bytesMax: number) =>
  new Problem(bodyTooLarge, `The body is larger than ${bytesMax} bytes.`)

function requireMediaType({ headers }: Request, mediaType: string): void {
  if (headers.get('content-type')?.split(';', 1)[0]?.trim().toLowerCase() === mediaType) return
  throw new Problem(unsupportedMediaType, `This request needs a body with Content-Type: ${mediaType}.`)
}

async function readLimitedBody({ body }: Request, timeoutMs: number, bytesMax: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of readBody(body, { ms: timeoutMs, per: 'body' })) {
    bytes += chunk.byteLength
    if (bytes > bytesMax) throw bodyTooLargeProblem(bytesMax)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function parseBody(bytes: Buffer): unknown {
  refuseExcessiveJson(bytes)
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw new Problem(malformedBody, 'The body is not valid UTF-8 JSON.')
  }
}

/** Rejects text that PostgreSQL cannot store. */
function requireStorableText(value: unknown): void {
  if (typeof value === 'string') requireStorable(value)
  if (typeof value !== 'object' || value === null) return
  for (const [key, member] of Object.entries(value)) {
    requireStorable(key)
    requireStorableText(member)
  }
}

function requireStorable(text: string): void {
  if (text.includes('\0') || !text.isWellFormed()) {
    throw new Problem(malformedBody, 'A string in the body contains a NUL character or a lone surrogate.')
  }
}

/** Maximum time for a whole body, or for the wait between two chunks of it. */
type BodyDeadline = { ms: number; per: 'body' | 'chunk' }

/**
 * Yields the chunks of a request's body. Throws 408 at the deadline, so that a stalled client holds nothing for long, and
 * 400 if the client disconnects.
 */
export async function* readBody(body: Request['body'], { ms, per }: BodyDeadline): AsyncGenerator<Uint8Array> {
  if (!body) return
  const reader = body.getReader()
  const timeout = Promise.withResolvers<never>()
  timeout.promise.catch(() => {})
  const timer = setTimeout(() => timeout.reject(timeoutProblem(ms)), ms)
  try {
    for (;;) {
      const { done, value } = await Promise.race([reader.read().catch(throwAborted), timeout.promise])
      if (done) return
      if (per === 'chunk') timer.refresh()
      yield value
    }
  } finally {
    clearTimeout(timer)
    reader.cancel().catch(() => {})
  }
}

const timeoutProblem = (ms: number): Problem =>
  new Problem(requestTimeout, `The request body did not arrive within ${ms / 1000} s.`, {
    headers: { connection: 'close' },
  })

/** Throws a problem instead of the original error, whose code would be mistaken for a lost database connection. */
function throwAborted(): never {
  throw new Problem(malformedBody, 'The client disconnected before the body was complete.')
}

/**
 * Receives a file. Checks in this order: 413, 415, 400. The file is written to disk as it arrives and is cut off at the
 * size limit. Returns undefined if the endpoint expects no file.
 */
export async function receiveUpload(
  request: Request,
  expected: Endpoint['upload'],
  { folder, idleMs }: { folder: string; idleMs: number },
): Promise<SpooledFile | undefined> {
  if (!expected) return undefined
  const { mediaType, bytesMax } = expected
  if (Number(request.headers.get('content-length') ?? 0) > bytesMax) throw bodyTooLargeProblem(bytesMax)
  requireMediaType(request, mediaType)
  const spooled = await spool(Readable.from(readBody(request.body, { ms: idleMs, per: 'chunk' })), {
    folder,
    flush: false,
    bytesMax,
  }).catch(throwTooLarge)
  if (await isGzip(spooled.path)) return spooled
  await spooled[Symbol.asyncDispose]()
  throw new Problem(malformedBody, 'The body is not gzip.')
}

function throwTooLarge(error: unknown): never {
  throw error instanceof BlobRefused ? new Problem(bodyTooLarge, error.message) : error
}

const GZIP_MAGIC = Buffer.from([0x1f, 0x8b])

async function isGzip(path: string): Promise<boolean> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(GZIP_MAGIC.length), 0, GZIP_MAGIC.length, 0)
  return bytesRead === GZIP_MAGIC.length && buffer.equals(GZIP_MAGIC)
}

const DEPTH_MAX = 64
const VALUES_MAX = 200_000
/** Maximum number of keys of an object. Validation reports every unknown key, which takes long for many of them. */
const KEYS_MAX = 1_000

/** Byte values of the characters that structure JSON. */
const [QUOTE, COMMA, OPEN_BRACE, OPEN_BRACKET, CLOSE_BRACE, CLOSE_BRACKET] = Buffer.from('",{[}]')

/**
 * An object or array that the scan is inside of. `keys` are those of an object so far, undefined for an array. `position`
 * is the current key or index, undefined before a key.
 */
type OpenValue = { keys: Set<string> | undefined; position: string | number | undefined }

/**
 * Refuses JSON with too many or too deeply nested values in one pass, before parsing it could block the event loop: a
 * body of 2 MiB that is nested a million deep takes a second to parse, this scan a few milliseconds. Duplicate keys are
 * refused because parsers disagree on which one counts.
 */
export function refuseExcessiveJson(bytes: Buffer): void {
  const path: OpenValue[] = []
  let values = 0
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === QUOTE) at = scanString(bytes, at, path)
    else if (byte === COMMA) {
      values += 1
      advanceElement(path.at(-1))
    } else updatePath(path, byte)
    if (path.length > DEPTH_MAX) throw new Problem(malformedBody, `The body is nested deeper than ${DEPTH_MAX} levels.`)
  }
  if (values > VALUES_MAX) throw new Problem(malformedBody, `The body has more than ${VALUES_MAX} values.`)
}

/** Returns the position of the closing quote. A string that is a key is added to its object. */
function scanString(bytes: Buffer, start: number, path: readonly OpenValue[]): number {
  const end = findStringEnd(bytes, start)
  if (isBeforeKey(path.at(-1))) addKey(path, decodeKey(bytes, start + 1, end))
  return end
}

const isBeforeKey = (value: OpenValue | undefined): boolean => value?.keys !== undefined && value.position === undefined

function advanceElement(value: OpenValue | undefined): void {
  if (value) value.position = typeof value.position === 'number' ? value.position + 1 : undefined
}

function updatePath(path: OpenValue[], byte: number | undefined): void {
  if (byte === OPEN_BRACE) path.push({ keys: new Set(), position: undefined })
  else if (byte === OPEN_BRACKET) path.push({ keys: undefined, position: 0 })
  else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) path.pop()
}

/** Decodes a key, so that two spellings of it are recognised as one. The parser reports malformed escapes. */
function decodeKey(bytes: Buffer, start: number, end: number): string {
  const raw = bytes.toString('utf8', start, end)
  if (!raw.includes('\\')) return raw
  try {
    return String(JSON.parse(`"${raw}"`))
  } catch {
    return raw
  }
}

function addKey(path: readonly OpenValue[], key: string): void {
  const object = path.at(-1)
  if (!object?.keys) return
  object.position = key
  if (!object.keys.has(key)) {
    object.keys.add(key)
    if (object.keys.size > KEYS_MAX)
      throw new Problem(malformedBody, `An object in the body has more than ${KEYS_MAX} keys.`)
    return
  }
  const message = 'The key occurs more than once in its object. Send it once.'
  throw new Problem(malformedBody, `The body has a duplicate key: ${toPointer(path)}`, {
    errors: [{ pointer: toPointer(path), code: 'duplicate_key', message }],
  })
}

const toPointer = (path: readonly OpenValue[]): string =>
  path.map(({ position }) => `/${toPointerStep(String(position))}`).join('')

/** Maximum number of invalid fields in an answer. A body can have 200,000 values, each of them wrong. */
const ERRORS_MAX = 100

/** Returns the parsed value. Throws a 422 that lists the invalid fields. */
export function validate<S extends z.ZodType>(schema: S, value: unknown, pointerPrefix = ''): z.output<S> {
  const result = schema.safeParse(value, { error: describeIssue })
  if (result.success) return result.data
  const { issues } = result.error
  const count = issues.reduce((sum, issue) => sum + (issue.code === 'unrecognized_keys' ? issue.keys.length : 1), 0)
  const errors = issues.slice(0, ERRORS_MAX).flatMap((issue) => toFieldErrors(issue, pointerPrefix))
  throw new Problem(invalidRequest, summarize(errors, count), { errors: errors.slice(0, ERRORS_MAX) })
}

function toFieldErrors(issue: z.core.$ZodIssue, pointerPrefix: string): FieldError[] {
  const path = pointerPrefix + issue.path.map((step) => `/${toPointerStep(String(step))}`).join('')
  if (issue.code !== 'unrecognized_keys')
    return [{ pointer: path, code: toFieldErrorCode(issue), message: issue.message }]
  return issue.keys.slice(0, ERRORS_MAX).map((key) => ({
    pointer: `${path}/${toPointerStep(key)}`,
    code: 'unknown_field',
    message: 'Unknown field.',
  }))
}

/** Returns the code of a field error. A custom check may set its own. */
const toFieldErrorCode = (issue: z.core.$ZodIssue): string =>
  issue.code === 'custom' && typeof issue.params?.code === 'string' ? issue.params.code : issue.code

function summarize(errors: readonly FieldError[], count: number): string {
  const [first] = errors
  if (!first) return 'The request does not match its schema.'
  const more = count > 1 ? ` (and ${count - 1} more)` : ''
  return `${first.pointer.slice(0, 200) || 'The body'}: ${first.message}${more}`
}

/** Reads query parameters as an object. Repeated parameters become a list. */
export function readQuery(url: string): Record<string, string | string[]> {
  const query: Record<string, string | string[]> = Object.create(null)
  for (const [name, value] of new URL(url).searchParams) {
    if (value.includes('\0')) throw invalidQuery(name, 'must not contain a NUL character')
    const previous = query[name]
    query[name] = previous === undefined ? value : [previous, value].flat()
  }
  return query
}

const invalidQuery = (name: string, message: string): Problem =>
  new Problem(invalidRequest, `/query/${name.slice(0, 100)}: ${message}`, {
    errors: [{ pointer: `/query/${toPointerStep(name)}`, code: 'invalid_format', message }],
  })

/** Describes an issue for which the schema has no message. Returns undefined to use zod's own message. */
function describeIssue(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.input === undefined && issue.code === 'invalid_type') return 'is missing'
  if (issue.code === 'invalid_type') return TYPE_MESSAGES[issue.expected]
  if (issue.code === 'invalid_value') return `must be ${describeChoices(issue.values.map(String))}`
  if (issue.code === 'too_small') return `must ${describeBound(issue.origin, 'at least', issue.minimum)}`
  if (issue.code === 'too_big') return `must ${describeBound(issue.origin, 'at most', issue.maximum)}`
  return undefined
}

const describeChoices = (values: string[]): string =>
  values.length > 1 ? `one of ${values.join(', ')}` : values.join('')

const TYPE_MESSAGES: Record<string, string> = {
  number: 'must be a number',
  int: 'must be a whole number',
  string: 'must be a string',
  boolean: 'must be true or false',
  array: 'must be a list',
  object: 'must be an object',
}

const ENTRIES = { one: 'entry', many: 'entries' }
const UNITS: Record<string, { one: string; many: string }> = {
  string: { one: 'character', many: 'characters' },
  array: ENTRIES,
  set: ENTRIES,
}

function describeBound(origin: string, comparison: string, limit: number | bigint): string {
  const unit = UNITS[origin]
  if (unit === undefined) return `be ${comparison} ${limit}`
  return `have ${comparison} ${limit} ${limit === 1 ? unit.one : unit.many}`
}

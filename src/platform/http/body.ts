import { bodyTooLarge, malformedBody, Problem, unsupportedMediaType } from '../problem.ts'
import { readBody } from './read-body.ts'

const BODY_BYTES_MAX = 2 * 1024 * 1024

/** Reads a JSON body in the order of checks: 413, 415, 408, 400. A chunked body is cut off where it passes the limit. */
export async function readJson(request: Request, timeoutMs: number, optional = false): Promise<unknown> {
  if (optional && hasNoBody(request)) return {}
  if (Number(request.headers.get('content-length') ?? 0) > BODY_BYTES_MAX) throw tooLarge()
  if (!isJson(request.headers.get('content-type'))) {
    throw new Problem(unsupportedMediaType, 'This request needs a body with Content-Type: application/json.')
  }
  const value = parse(await readCapped(request, timeoutMs))
  refuseBadText(value)
  return value
}

const hasNoBody = ({ headers }: Request): boolean =>
  !headers.has('transfer-encoding') && Number(headers.get('content-length') ?? 0) === 0

const tooLarge = () => new Problem(bodyTooLarge, `The body is larger than ${BODY_BYTES_MAX} bytes.`)

const isJson = (contentType: string | null): boolean =>
  contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'

async function readCapped({ body }: Request, timeoutMs: number): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of readBody(body, { ms: timeoutMs, per: 'body' })) {
    bytes += chunk.byteLength
    if (bytes > BODY_BYTES_MAX) throw tooLarge()
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

function parse(bytes: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch {
    throw new Problem(malformedBody, 'The body is not valid UTF-8 JSON.')
  }
}

/** PostgreSQL stores neither NUL nor half a surrogate pair. The walk keeps its own stack: bodies can nest a million deep. */
function refuseBadText(value: unknown): void {
  const rest: unknown[] = [value]
  while (rest.length > 0) {
    const next = rest.pop()
    if (typeof next === 'string') requireStorable(next)
    if (typeof next !== 'object' || next === null) continue
    // One at a time: spreading an array of a million members into arguments would overflow the stack.
    for (const [key, member] of Object.entries(next)) rest.push(key, member)
  }
}

function requireStorable(text: string): void {
  if (text.includes('\0') || !text.isWellFormed()) {
    throw new Problem(malformedBody, 'A string in the body holds a NUL character or half of a surrogate pair.')
  }
}

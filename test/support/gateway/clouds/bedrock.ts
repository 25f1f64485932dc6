import { createHash, createHmac } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { crc32 } from 'node:zlib'
import type { ScriptInput } from '../../../../samples/provider/script.ts'
import { objectOf, parseObject, textOf } from '../../../../src/gateway/protocols/fields.ts'
import type { JsonObject } from '../../../../src/harnesses/json.ts'
import { type CloudDecision, type CloudRequest, type FakeCloud, relayUnchanged, startCloud } from './cloud-front.ts'

type AwsAccount = { accessKeyId: string; secretAccessKey: string; sessionToken?: string; region: string }

/** An exception in the middle of a stream, such as `throttlingException`. */
type StreamException = { type: string; message: string }

export type FakeBedrock = FakeCloud & { endNextStream(exception: StreamException): void }

/**
 * Starts a fake of Amazon Bedrock's runtime: InvokeModel and InvokeModelWithResponseStream for Anthropic's models, and
 * the endpoint that is compatible with OpenAI. It verifies signatures with an implementation of its own.
 */
export async function startBedrock(account: AwsAccount, script: ScriptInput): Promise<FakeBedrock> {
  let exception: StreamException | undefined
  const cloud = await startCloud(
    {
      decide: (request) => refuseSignature(account, request) ?? toModelRequest(request),
      relay(answer, response, request) {
        const ending = exception
        exception = undefined
        return relay(answer, response, request, ending)
      },
    },
    script,
  )
  return {
    ...cloud,
    endNextStream(next) {
      exception = next
    },
  }
}

const refuse = (status: number, type: string, message: string): CloudDecision => ({
  kind: 'answered',
  status,
  body: { message },
  headers: { 'x-amzn-errortype': `${type}:http://internal.amazon.com/coral/com.amazon.bedrock/` },
})

const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/

function refuseSignature(account: AwsAccount, request: CloudRequest): CloudDecision | undefined {
  const { headers } = request
  const [, id, date = '', region, service, names = '', signature] =
    AUTHORIZATION.exec(headers.authorization ?? '') ?? []
  if (id === undefined) return refuse(403, 'MissingAuthenticationTokenException', 'Missing Authentication Token')
  if (id !== account.accessKeyId || headers['x-amz-security-token'] !== account.sessionToken)
    return refuse(403, 'UnrecognizedClientException', 'The security token included in the request is invalid.')
  if (region !== account.region || service !== 'bedrock')
    return refuse(403, 'InvalidSignatureException', 'Credential should be scoped to a valid region.')
  const time = String(headers['x-amz-date'])
  if (!time.startsWith(date) || !isRecent(time))
    return refuse(403, 'InvalidSignatureException', `Signature expired: ${time} is now earlier than allowed.`)
  return signature === expectedSignature(account, request, names.split(';'), time)
    ? undefined
    : refuse(403, 'InvalidSignatureException', MISMATCH)
}

const MISMATCH =
  'The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.'

const FIVE_MINUTES_MS = 300_000

function isRecent(time: string): boolean {
  const at = Date.parse(time.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  return Math.abs(Date.now() - at) < FIVE_MINUTES_MS
}

/** Returns undefined if a header is not signed that has to be. */
function expectedSignature(account: AwsAccount, request: CloudRequest, names: string[], time: string) {
  if (!['host', 'x-amz-date'].every((name) => names.includes(name))) return undefined
  const signedHeaders = names.map((name): [string, string] => [name, String(request.headers[name])])
  return computeSignature({ ...account, service: 'bedrock', time }, { ...request, signedHeaders })
}

type SigningScope = { secretAccessKey: string; region: string; service: string; time: string }
type SignedRequest = {
  method: string
  path: string
  query: URLSearchParams
  signedHeaders: [string, string][]
  body: Buffer
}

/** Computes a signature as the documentation of Signature Version 4 describes it. */
export function computeSignature(
  { secretAccessKey, region, service, time }: SigningScope,
  { method, path, query, signedHeaders, body }: SignedRequest,
): string {
  const escapeUri = (text: string): string =>
    encodeURIComponent(text).replaceAll(/[!'()*]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
  const canonical = [
    method,
    path.split('/').map(escapeUri).join('/'), // The path is escaped already, and once more for the signature.
    [...query]
      .map(([name, value]) => `${escapeUri(name)}=${escapeUri(value)}`)
      .sort()
      .join('&'),
    ...signedHeaders.map(([name, value]) => `${name}:${value.trim().replaceAll(/ +/g, ' ')}`),
    '',
    signedHeaders.map(([name]) => name).join(';'),
    sha256(body),
  ].join('\n')
  const scope = [time.slice(0, 8), region, service, 'aws4_request']
  const key = scope.reduce<string | Buffer>((secret, part) => hmac(secret, part), `AWS4${secretAccessKey}`)
  return hmac(key, ['AWS4-HMAC-SHA256', time, scope.join('/'), sha256(canonical)].join('\n')).toString('hex')
}

const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')
const hmac = (key: string | Buffer, data: string): Buffer => createHmac('sha256', key).update(data).digest()

const INVOKE = /^\/model\/([^/]+)\/(invoke|invoke-with-response-stream)$/

function toModelRequest({ method, path, body }: CloudRequest): CloudDecision {
  const json = parseObject(body.toString())
  if (!json || method !== 'POST') return refuse(400, 'SerializationException', 'Invalid JSON.')
  if (path === '/openai/v1/chat/completions') return { kind: 'accepted', path: '/v1/chat/completions', body: json }
  const [, model, verb] = INVOKE.exec(path) ?? []
  if (model === undefined) return refuse(404, 'UnknownOperationException', 'Unknown operation.')
  const complaint = findComplaint(json)
  if (complaint !== undefined) return refuse(400, 'ValidationException', complaint)
  const { anthropic_version: _version, anthropic_beta: _betas, ...message } = json
  const isStream = verb === 'invoke-with-response-stream'
  return {
    kind: 'accepted',
    path: '/v1/messages',
    body: { ...message, model: decodeURIComponent(model), stream: isStream },
  }
}

const FOREIGN = ['model', 'stream', 'metadata', 'service_tier', 'inference_geo', 'speed']

function findComplaint(body: JsonObject): string | undefined {
  if (body.anthropic_version !== 'bedrock-2023-05-31') return 'anthropic_version: Field required'
  const extra = FOREIGN.find((name) => body[name] !== undefined)
  if (extra !== undefined) return `${extra}: Extra inputs are not permitted`
  if (JSON.stringify(body.anthropic_beta ?? []).includes('claude-code')) return 'invalid beta flag'
  return body.max_tokens === undefined ? 'max_tokens: Field required' : undefined
}

const EXCEPTIONS: Record<number, string> = {
  400: 'ValidationException',
  401: 'AccessDeniedException',
  403: 'AccessDeniedException',
  404: 'ResourceNotFoundException',
  408: 'ModelTimeoutException',
  424: 'ModelErrorException',
  429: 'ThrottlingException',
  503: 'ServiceUnavailableException',
}

async function relay(
  answer: Response,
  response: ServerResponse,
  { path }: CloudRequest,
  exception: StreamException | undefined,
): Promise<void> {
  if (!answer.ok) return relayError(answer, response)
  if (!path.endsWith('/invoke-with-response-stream')) return relayUnchanged(answer, response)
  response.writeHead(200, { 'content-type': 'application/vnd.amazon.eventstream' })
  let sent = 0
  for await (const data of listEventData(answer)) {
    if (exception && sent === 3) return void response.end(exceptionFrame(exception))
    response.write(chunkFrame(data))
    sent += 1
  }
  response.end()
}

async function relayError(answer: Response, response: ServerResponse): Promise<void> {
  const { error } = parseObject(await answer.text()) ?? {}
  const type = EXCEPTIONS[answer.status] ?? 'InternalServerException'
  const headers = { 'content-type': 'application/json', 'x-amzn-errortype': `${type}:http://internal.amazon.com/` }
  response.writeHead(answer.status, headers).end(JSON.stringify({ message: textOf(objectOf(error).message) ?? '' }))
}

async function* listEventData(answer: Response): AsyncGenerator<string> {
  let text = ''
  for await (const chunk of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const events = (text + chunk).split('\n\n')
    text = events.pop() ?? ''
    for (const event of events) yield /^data: (.*)$/m.exec(event)?.[1] ?? ''
  }
}

const chunkFrame = (data: string): Buffer =>
  encodeFrame(
    { ':event-type': 'chunk', ':content-type': 'application/json', ':message-type': 'event' },
    { bytes: Buffer.from(data).toString('base64'), p: 'abcdefghijkl' },
  )

const exceptionFrame = ({ type, message }: StreamException): Buffer =>
  encodeFrame(
    { ':exception-type': type, ':content-type': 'application/json', ':message-type': 'exception' },
    { message },
  )

/** Encodes a frame of `application/vnd.amazon.eventstream`: lengths, headers and payload, with two checksums. */
export function encodeFrame(headers: Record<string, string>, payload: JsonObject): Buffer {
  const encoded = Buffer.concat(
    Object.entries(headers).map(([name, value]) => {
      const length = Buffer.alloc(2)
      length.writeUInt16BE(Buffer.byteLength(value))
      return Buffer.concat([
        Buffer.of(Buffer.byteLength(name)),
        Buffer.from(name),
        Buffer.of(7),
        length,
        Buffer.from(value),
      ])
    }),
  )
  const body = Buffer.from(JSON.stringify(payload))
  const lengths = Buffer.concat([uint32(16 + encoded.length + body.length), uint32(encoded.length)])
  const message = Buffer.concat([lengths, uint32(crc32(lengths)), encoded, body])
  return Buffer.concat([message, uint32(crc32(message))])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import type { JsonObject } from '../harnesses/json.ts'
import type { Protocol } from '../harnesses/model-access.ts'
import { newId } from '../platform/ids.ts'
import { handleInSequence, toListeningUrl } from '../platform/listen.ts'
import { createAnswerPacer } from './answer-pace.ts'
import { makeCall } from './call.ts'
import type { GatewayDeps, GatewayRequest, GatewayRuntime } from './call-context.ts'
import { type ClientResponse, wrapResponse } from './client-response.ts'
import { createAbandonedCalls, createGrantLimiter, isSecretOf } from './grants.ts'
import { listTokens } from './headers.ts'
import { openInputMemory } from './input-memory.ts'
import type { Grant, Refusal, Terms } from './ledger.ts'
import { DEFAULT_OPTIONS, type GatewayOptions } from './options.ts'
import { BROKEN, toRefusalProblem } from './problems.ts'
import { wireProtocols } from './protocols.ts'
import { openTunnels, type Tunnels } from './tunnels.ts'
import type { WireOperation, WireProtocol } from './wire-protocol.ts'

export type Gateway = {
  url: string
  /** Number of open connections from sandboxes. */
  tunnels(): number
  /** Gives open calls this long to end; then they are aborted and settled. */
  stop(graceMs: number): Promise<void>
}

export type ListenAddress = { host: string; port: number }

/** Maximum number of connections that wait to be accepted. Many sandboxes start at the same time. */
const BACKLOG_MAX = 4096
const HEADER_BYTES_MAX = 64 * 1024
const HEADERS_MS = 20_000
/** Maximum idle time of a connection. Agents keep theirs open while they run the commands of the model. */
const KEEP_ALIVE_MS = 15 * 60_000

/** Starts a gateway: the only address that every sandbox can reach. It forwards calls as far as the grant allows. */
export async function startGateway(
  deps: GatewayDeps,
  address: ListenAddress,
  overrides: Partial<GatewayOptions> = {},
): Promise<Gateway> {
  const options = { ...DEFAULT_OPTIONS, ...overrides }
  const runtime: GatewayRuntime = {
    ...deps,
    openSecret: cacheSecrets(deps.openSecret),
    gatewayId: newId(),
    options,
    limiter: createGrantLimiter(options),
    pacer: createAnswerPacer(options),
    abandoned: createAbandonedCalls(),
    inputMemory: openInputMemory(),
    openTimeouts: new Set(),
  }
  const tunnels = openTunnels(runtime, (connection) => server.emit('connection', connection))
  const calls = new Set<Promise<void>>()

  const handle: RequestListener = (request, response) => {
    if (!server.listening) return answerStopping(response)
    const call = handleRequest(runtime, tunnels.grantOf(request.socket), request, response)
    calls.add(call)
    void call.finally(() => calls.delete(call))
  }
  const server: Server = createServer(buildServerOptions(options), handleInSequence(handle))
  // A client may close its half of the connection while it waits for the answer.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on('connect', tunnels.accept)
  await runtime.ledger.noteAlive(runtime.gatewayId)
  const url = await listen(server, address)
  const heartbeat = setInterval(() => reportAlive(runtime), HEARTBEAT_MS).unref()
  const stop = async (graceMs: number) => {
    await stopServer(server, { runtime, tunnels, calls }, graceMs)
    clearInterval(heartbeat)
  }
  return { url, tunnels: tunnels.count, stop }
}

type OpenSecret = GatewayDeps['openSecret']

const SECRET_CACHE_MS = 5_000
const SECRETS_MAX = 1000

/** Caches secrets for a few seconds, so that not every call needs a lookup and a replaced key is used soon. */
function cacheSecrets(openSecret: OpenSecret): OpenSecret {
  const cache = new Map<string, { secret: ReturnType<OpenSecret>; until: number }>()
  return (grant) => {
    const cacheKey = `${grant.workspaceId} ${grant.credentialId} ${grant.terms.provider}`
    const cached = cache.get(cacheKey)
    if (cached && cached.until > performance.now()) return cached.secret
    if (cache.size >= SECRETS_MAX) cache.clear()
    const secret = openSecret(grant)
    cache.set(cacheKey, { secret, until: performance.now() + SECRET_CACHE_MS })
    secret.catch(() => cache.delete(cacheKey)) // Failures are not cached.
    return secret
  }
}

/** Interval of the reports that this gateway is alive. Much shorter than the silence after which it counts as dead. */
const HEARTBEAT_MS = 3_000

const reportAlive = ({ ledger, gatewayId, log }: GatewayRuntime): void =>
  void ledger
    .noteAlive(gatewayId)
    .catch((error: unknown) => log.warn({ error }, 'the gateway could not report that it is alive'))

const buildServerOptions = ({ requestMs }: GatewayOptions) => ({
  maxHeaderSize: HEADER_BYTES_MAX,
  headersTimeout: Math.min(HEADERS_MS, requestMs),
  requestTimeout: requestMs,
  connectionsCheckingInterval: Math.min(5_000, requestMs),
  keepAliveTimeout: KEEP_ALIVE_MS,
})

async function handleRequest(
  runtime: GatewayRuntime,
  grant: Grant | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const client = wrapResponse(response, runtime.options.idleMs)
  const { method = '', url = '', headers } = request
  const [path = '', ...query] = url.split('?')
  try {
    if (!grant) {
      const { authorization } = headers
      const answer = await answerOutsideTunnel(runtime, { method, url, authorization })
      return void response.writeHead(answer.status, answer.headers).end(answer.text)
    }
    const search = new URLSearchParams(query.join('?'))
    await serveRequest(runtime, grant, { method, path, query: search, headers, body: request }, client)
  } catch (error) {
    runtime.log.error({ error, grant: grant?.id }, 'a request to the gateway failed')
    client.answer(BROKEN.status, { error: { code: BROKEN.code, message: BROKEN.message } })
  }
}

type PlainAnswer = { status: number; headers: Record<string, string>; text: string }
type OutsideRequest = { method: string; url: string; authorization: string | undefined }

const TEXT_HEADERS = { 'content-type': 'text/plain' }

/** Answers requests outside of tunnels, which come from no sandbox: health, and metrics for the operator. */
async function answerOutsideTunnel(
  { metrics, holdsMasterKey }: Pick<GatewayRuntime, 'metrics' | 'holdsMasterKey'>,
  { method, url, authorization = '' }: OutsideRequest,
): Promise<PlainAnswer> {
  if (url === '/healthz') return { status: 200, headers: TEXT_HEADERS, text: 'ok\n' }
  if (url === '/readyz')
    return holdsMasterKey?.() === false
      ? {
          status: 503,
          headers: TEXT_HEADERS,
          text: 'This process does not hold the master key in use. Restart it with that key.\n',
        }
      : { status: 200, headers: TEXT_HEADERS, text: 'ok\n' }
  if (url === '/metrics' && ['GET', 'HEAD'].includes(method) && metrics) {
    const [, key] = /^Bearer +(\S+)$/i.exec(authorization) ?? []
    if (key === undefined || !metrics.isOperatorKey(key))
      return {
        status: 401,
        headers: { ...TEXT_HEADERS, 'www-authenticate': 'Bearer' },
        text: 'Operator key required.\n',
      }
    return { status: 200, headers: { 'content-type': metrics.contentType }, text: await metrics.text() }
  }
  const text = 'The gateway only accepts connections that workers open for sandboxes.\n'
  return { status: 403, headers: { ...TEXT_HEADERS, connection: 'close' }, text }
}

function answerStopping(response: ServerResponse): void {
  const headers = { 'content-type': 'application/json', connection: 'close', 'retry-after': '1' }
  response.writeHead(503, headers).end('{"error":{"message":"The gateway is stopping. Retry the request."}}')
}

async function listen(server: Server, { host, port }: ListenAddress): Promise<string> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ port, host, backlog: BACKLOG_MAX }, resolve)
  })
  return toListeningUrl(server)
}

type RunningGateway = { runtime: GatewayRuntime; tunnels: Tunnels; calls: Set<Promise<void>> }

async function stopServer(server: Server, { runtime, tunnels, calls }: RunningGateway, graceMs: number): Promise<void> {
  const closed = new Promise((resolve) => server.close(resolve))
  server.closeIdleConnections()
  const grace = new AbortController()
  const ended = Promise.allSettled([...calls])
  await Promise.race([ended, wait(graceMs, undefined, { signal: grace.signal }).catch(() => {})])
  grace.abort()
  for (const timeouts of runtime.openTimeouts) timeouts.abort('stop')
  await Promise.allSettled([...calls])
  tunnels.closeAll()
  server.closeAllConnections()
  await closed
}

/** Answers one request from the sandbox of a grant. */
async function serveRequest(
  runtime: GatewayRuntime,
  grant: Grant,
  request: GatewayRequest,
  client: ClientResponse,
): Promise<void> {
  const { wire, operation } = resolveOperation(request, grant.terms.protocols)
  const refuse = (reason: Refusal, message: string) => refuseWith(runtime, grant, wire, client, { reason, message })
  if (operation?.kind === 'hello') return client.answer(200, {})
  if (!listTokens(request.headers, request.query).some((token) => isSecretOf(token, grant.tokenHash)))
    return refuse('token', 'Invalid key. Use the key of this trial.')
  if (!operation || !grant.terms.protocols.includes(wire.protocol))
    return refuse('path', `Not found: ${request.method} ${request.path.slice(0, 200)} is not available to this trial.`)
  if (operation.kind === 'upgrade') return client.answer(...buildUpgradeAnswer(wire))
  if (operation.kind === 'models') return client.answer(200, buildModelList(request.path, grant.terms))

  const slot = runtime.limiter.enter(grant.id)
  if (!slot) return refuse('busy', 'Too many concurrent calls. Wait until one of them has ended.')
  try {
    await makeCall(runtime, { grant, wire, operation, request, client, slot, refuse })
  } finally {
    slot.release()
  }
}

/** Finds the protocol that knows the path, preferably one of the grant's. Unknown paths are answered in the first one. */
function resolveOperation(
  { method, path }: GatewayRequest,
  allowed: readonly Protocol[],
): { wire: WireProtocol; operation?: WireOperation } {
  const others = Object.values(wireProtocols).filter(({ protocol }) => !allowed.includes(protocol))
  const candidates = [...allowed.map((protocol) => wireProtocols[protocol]), ...others]
  for (const wire of candidates) {
    const operation = wire.parseOperation(method, path)
    if (operation) return { wire, operation }
  }
  return { wire: candidates[0] ?? wireProtocols['openai-chat'] }
}

/** Stores a refusal before it is answered, so that the ledger is complete when the program has ended. */
async function refuseWith(
  { ledger, counters }: GatewayRuntime,
  grant: Grant,
  wire: WireProtocol,
  client: ClientResponse,
  { reason, message }: { reason: Refusal; message: string },
): Promise<void> {
  counters.countRefusal(reason)
  await ledger.refuse(grant.id, reason)
  const { status, code, headers } = toRefusalProblem(reason, message)
  client.answer(status, wire.formatError(status, code, message), headers)
}

const buildUpgradeAnswer = (wire: WireProtocol): [number, JsonObject, Record<string, string>] => [
  426,
  wire.formatError(426, 'upgrade_required', 'WebSockets are not supported. Send a POST request.'),
  { connection: 'close' },
]

/** Lists the one model of a grant in the format that the path belongs to. */
function buildModelList(path: string, { model, outputTokens, provider }: Terms): JsonObject {
  const namesModel = /\/models\/[^/]/.test(path)
  if (/^\/v1(alpha|beta)\//.test(path)) {
    const geminiModel = { name: `models/${model}`, displayName: model, outputTokenLimit: outputTokens }
    return namesModel ? geminiModel : { models: [geminiModel] }
  }
  // The fields that the APIs of OpenAI and Anthropic expect.
  const epoch = { created: 0, created_at: '1970-01-01T00:00:00Z' }
  const listed = { id: model, type: 'model', object: 'model', display_name: model, owned_by: provider, ...epoch }
  return namesModel ? listed : { object: 'list', data: [listed], has_more: false, first_id: model, last_id: model }
}

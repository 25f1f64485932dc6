import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { createGatewayCounters, type GatewayDeps } from '../../../src/gateway/call-context.ts'
import { type Gateway, startGateway } from '../../../src/gateway/gateway.ts'
import { type OpenedGrant, openGrant, readGrant } from '../../../src/gateway/grants.ts'
import type { GrantFacts, Ledger, Terms } from '../../../src/gateway/ledger.ts'
import { createMemoryLedger } from '../../../src/gateway/memory-ledger.ts'
import type { GatewayOptions } from '../../../src/gateway/options.ts'
import { type GatewayPort, openSandboxPort } from '../../../src/gateway/sandbox-port.ts'
import type { GrantTotals } from '../../../src/gateway/totals.ts'
import { newId } from '../../../src/platform/ids.ts'
import { createLog, type Log } from '../../../src/platform/log.ts'
import { createMetrics } from '../../../src/platform/metrics.ts'
import { createOpenStream } from '../../../src/platform/outbound/open-stream.ts'
import { type LoopbackServer, startServer } from '../loopback-servers.ts'

export const KEY = 'sk-canary-0123456789abcdef'
export const OPERATOR_KEY = 'operator-key-of-the-gateway-0123456789'

export const TERMS: Terms = {
  catalogId: 'acme/large',
  model: 'large-1',
  provider: 'acme',
  baseUrl: null,
  protocols: ['anthropic-messages', 'openai-chat', 'openai-responses', 'gemini'],
  wireLevel: { effort: 'high' },
  outputTokens: 1000,
  prices: { input: 3, output: 15, cacheRead: 0.3, cacheWrite5m: 3.75, cacheWrite1h: 6 },
  helpers: [
    { name: 'small-9', rule: 'refuse' },
    { name: 'small-*', rule: 'pin' },
  ],
  recordBodies: false,
}

export const newGrantFacts = (changes: Partial<Omit<GrantFacts, 'id'>> = {}): Omit<GrantFacts, 'id'> => ({
  workspaceId: newId(),
  grantee: `trial ${newId()}`,
  credentialId: newId(),
  terms: TERMS,
  budgetMicros: null,
  callsMax: 1000,
  expiresAt: new Date(Date.now() + 3_600_000),
  ...changes,
})

/** A request as the provider received it. */
export type UpstreamRequest = { method: string; path: string; headers: IncomingMessage['headers']; body: Buffer }

export type ProviderHandler = (response: ServerResponse, received: UpstreamRequest, place: number) => unknown

export type SandboxClient = OpenedGrant & {
  /** Base URL for a program in the sandbox. */
  url: string
  port: GatewayPort
  post(path: string, body: unknown, more?: RequestInit): Promise<Response>
  totals(): Promise<GrantTotals>
}

export type GatewayFixture = AsyncDisposable & {
  ledger: Ledger
  gateway: Gateway
  provider: LoopbackServer
  received: UpstreamRequest[]
  metrics: () => Promise<string>
  /** Connects a new sandbox with its own grant. */
  sandbox(changes?: Partial<Omit<GrantFacts, 'id'>>): Promise<SandboxClient>
}

type GatewayFixtureOptions = {
  ledger?: Ledger
  options?: Partial<GatewayOptions>
  tools?: Partial<GatewayDeps>
  log?: Log
}

/** Starts a gateway between sandboxes and a provider whose answers the test writes. */
export async function openGatewayFixture(
  answer: ProviderHandler,
  setup: GatewayFixtureOptions = {},
): Promise<GatewayFixture> {
  await using undo = new AsyncDisposableStack()
  const received: UpstreamRequest[] = []
  const provider = undo.use(
    await startServer((request, response) => {
      void buffer(request).then((body) => {
        const { method = '', url: path = '', headers } = request
        const place = received.push({ method, path, headers, body }) - 1
        return answer(response, { method, path, headers, body }, place)
      })
    }),
  )
  const ledger = setup.ledger ?? createMemoryLedger()
  const metrics = createMetrics()
  const tools: GatewayDeps = {
    ledger,
    openStream: createOpenStream(),
    openSecret: async () => ({ apiKey: KEY }),
    resolveUpstream: () => ({ url: `http://127.0.0.1:${provider.port}`, trust: 'operator' }),
    log: setup.log ?? createLog('silent'),
    counters: createGatewayCounters(metrics),
    metrics: { ...metrics, isOperatorKey: (key) => key === OPERATOR_KEY },
    ...setup.tools,
  }
  const retry = { triesMax: 4, totalMs: 10_000, firstMs: 1, pauseMaxMs: 5_000, quietMs: 50 }
  const gateway = await startGateway(tools, { host: '127.0.0.1', port: 0 }, { retry, ...setup.options })
  undo.defer(() => gateway.stop(0))
  const loopbacks = undo.use(new AsyncDisposableStack())
  const sandbox: GatewayFixture['sandbox'] = async (changes = {}) => {
    const opened = await openGrant(ledger, newGrantFacts(changes))
    const port = openSandboxPort({ gatewayUrl: gateway.url, tunnelSecret: opened.tunnelSecret })
    const url = await loopbackOf(port, loopbacks)
    return {
      ...opened,
      url,
      port,
      post: (path, body, more) => post(`${url}${path}`, opened.token, body, more),
      totals: () => readGrant(ledger, opened.id),
    }
  }
  const running = undo.move()
  return {
    ledger,
    gateway,
    provider,
    received,
    metrics: metrics.text,
    sandbox,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Simulates the loopback interface of a sandbox. */
async function loopbackOf(port: GatewayPort, undo: AsyncDisposableStack): Promise<string> {
  const sockets = new Set<Socket>()
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket)
    port.onConnection(socket)
  })
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
  await once(server, 'listening')
  undo.defer(() => {
    port.close()
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server has no port')
  return `http://127.0.0.1:${address.port}`
}

const post = (url: string, token: string, body: unknown, more: RequestInit = {}): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
    ...more,
    headers: { 'content-type': 'application/json', 'x-api-key': token, ...more.headers },
  })

export const messagesRequest = (changes: object = {}) => ({
  model: 'large-1',
  max_tokens: 100,
  output_config: { effort: 'high' },
  messages: [{ role: 'user', content: 'hello' }],
  ...changes,
})

/** 12 × 3 + 5 × 15 = 111 micro-dollars. */
export const USAGE = { input_tokens: 12, output_tokens: 5 }

export const message = (changes: object = {}) => ({
  type: 'message',
  model: 'large-1-2026',
  stop_reason: 'end_turn',
  content: [],
  usage: USAGE,
  ...changes,
})

export const sendJson = (response: ServerResponse, body: unknown, status = 200): void =>
  void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))

/** The events of a streamed message as bytes on the wire. */
export const EVENTS = [
  { type: 'message_start', message: { model: 'large-1-2026', usage: { input_tokens: 12, output_tokens: 1 } } },
  { type: 'ping' },
  { type: 'content_block_delta', delta: { text: 'grüß dich — 你好' } },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 5 } },
  { type: 'message_stop' },
].map((event) => `event: ${event.type}\r\ndata: ${JSON.stringify(event)}\r\n\r\n`)

export const beginEvents = (response: ServerResponse): ServerResponse =>
  response.writeHead(200, { 'content-type': 'text/event-stream' })

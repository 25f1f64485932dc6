// The part of each provider that tells a valid key from any other.
import { type LoopbackServer, startServer } from '../loopback-servers.ts'

/** Requests as the providers document them, independent of our table, which must agree. */
const DOORS: Record<string, { path: string; header: string; value: (key: string) => string; also?: string }> = {
  anthropic: { path: '/v1/models', header: 'x-api-key', value: (key) => key, also: 'anthropic-version' },
  openai: { path: '/models', header: 'authorization', value: (key) => `Bearer ${key}` },
  gemini: { path: '/v1beta/models', header: 'x-goog-api-key', value: (key) => key },
  openrouter: { path: '/key', header: 'authorization', value: (key) => `Bearer ${key}` },
  deepseek: { path: '/models', header: 'authorization', value: (key) => `Bearer ${key}` },
  xai: { path: '/models', header: 'authorization', value: (key) => `Bearer ${key}` },
  moonshot: { path: '/models', header: 'authorization', value: (key) => `Bearer ${key}` },
  zai: { path: '/models', header: 'authorization', value: (key) => `Bearer ${key}` },
  github: { path: '/user', header: 'authorization', value: (key) => `Bearer ${key}`, also: 'user-agent' },
}

export const VALID_KEY = 'sk-valid-0123456789abcdef'

export type ProviderServers = LoopbackServer & {
  /** Settings that lead there. */
  environment: Record<string, string>
  /** Answers this instead, whatever the key. */
  answer(status: number, headers?: Record<string, string>): void
}

/** Starts one server for all providers. It echoes the key, as a provider might; we must not repeat it. */
export async function startProviders(): Promise<ProviderServers> {
  let always: { status: number; headers: Record<string, string> } | undefined
  const server = await startServer((request, response) => {
    const { status, headers } = always ?? { status: statusOf(request.url ?? '', request.headers), headers: {} }
    response.writeHead(status, { 'content-type': 'application/json', ...headers })
    response.end(JSON.stringify({ error: { message: `Incorrect API key: ${JSON.stringify(request.headers)}` } }))
  })
  const settings = Object.keys(DOORS).map((provider) => [
    `ASSAY_GATEWAY_UPSTREAM_${provider.toUpperCase()}`,
    `http://127.0.0.1:${server.port}/${provider}`,
  ])
  return Object.assign(server, {
    environment: Object.fromEntries(settings),
    answer: (status: number, headers: Record<string, string> = {}) => {
      always = { status, headers }
    },
  })
}

function statusOf(url: string, headers: Record<string, unknown>): number {
  const [, provider = '', path] = /^\/([a-z]+)(\/[^?]*)/.exec(url) ?? []
  const door = DOORS[provider]
  if (!door || path !== door.path) return 404
  if (door.also && headers[door.also] === undefined) return 400
  return headers[door.header] === door.value(VALID_KEY) ? 200 : 401
}

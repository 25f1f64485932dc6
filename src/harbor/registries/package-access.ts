import { createHash } from 'node:crypto'
import { isIP } from 'node:net'
import { z } from 'zod'
import type { Outbound } from '../../platform/outbound/outbound.ts'
import { ask, textOf } from './ask.ts'
import { AccessRefused, RegistryUnavailable } from './registry.ts'

/** Who asks: everybody, or the owner of a personal key. */
export type PackageAccess = {
  /** Sends one request in that person's name. A token that has run out is exchanged for a new one, once. */
  send(
    path: string,
    init: { method?: string; body?: string; headers?: Record<string, string> } & Limits,
  ): Promise<Response>
}
type Limits = { signal: AbortSignal; timeoutMs?: number; bytesMax?: number }

export type PackageServer = {
  outbound: Outbound
  url: string
  publicKey: string
  now: () => number
  timeoutMs?: number
}
type Token = { value: string; until: number }
/** Remembers tokens by a hash of the key, so that the keys themselves stay where they are kept. */
export type Tokens = Map<string, Promise<Token>>

const Exchanged = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() })
/** A token is not used in its last moments: the clocks may differ. */
const MARGIN_MS = 20_000
const TOKENS_MAX = 200

export function packageAccess(server: PackageServer, tokens: Tokens, key: string | undefined): PackageAccess {
  const { outbound, url, publicKey, timeoutMs } = server
  const limits = timeoutMs === undefined ? {} : { timeoutMs }
  const send = (bearer: string, path: string, { headers, ...init }: Parameters<PackageAccess['send']>[1]) =>
    ask(outbound, `${url}${path}`, {
      ...limits,
      ...init,
      headers: { ...headers, apikey: publicKey, authorization: `Bearer ${bearer}` },
    })
  return {
    async send(path, init) {
      if (key === undefined) return accepted(await send(publicKey, path, init))
      const token = await tokenOf(server, tokens, key)
      const first = await send(token, path, init)
      if (!(await isExpired(first))) return accepted(first)
      return accepted(await send(await tokenOf(server, tokens, key, token), path, init))
    },
  }
}

function accepted(response: Response): Response {
  if (response.status !== 401 && response.status !== 403) return response
  throw new AccessRefused('The registry does not accept the key that was used.')
}

/** PostgREST answers 401, the storage 400 with a sentence. A second look at the body must stay possible. */
async function isExpired(response: Response): Promise<boolean> {
  if (response.status === 401 || response.status === 403) return true
  return response.status === 400 && /PGRST30[123]|jwt|exp\W{1,3}claim/i.test(await textOf(response.clone()))
}

/** All who wait for a token share one exchange. `spent` is one that the registry did not take any more. */
async function tokenOf(server: PackageServer, tokens: Tokens, key: string, spent?: string): Promise<string> {
  const name = nameOf(key)
  const pending = tokens.get(name)
  const known = await pending
  if (known && known.until > server.now() && known.value !== spent) return known.value
  const exchange = tokens.get(name) === pending ? remember(tokens, name, exchanged(server, key)) : tokens.get(name)
  return (await (exchange ?? exchanged(server, key))).value
}

function remember(tokens: Tokens, name: string, exchange: Promise<Token>): Promise<Token> {
  tokens.delete(name)
  tokens.set(name, exchange)
  exchange.catch(() => tokens.delete(name))
  const [oldest] = tokens.keys()
  if (tokens.size > TOKENS_MAX && oldest !== undefined) tokens.delete(oldest)
  return exchange
}

const nameOf = (key: string): string => createHash('sha256').update(key).digest('hex')

async function exchanged(server: PackageServer, key: string): Promise<Token> {
  refuseOpenWire(server.url)
  const response = await ask(server.outbound, `${server.url}/functions/v1/api-key-exchange`, {
    method: 'POST',
    headers: { apikey: server.publicKey, 'content-type': 'application/json' },
    body: JSON.stringify({ api_key: key }),
    redirect: 'error', // it carries the key
  })
  const text = await textOf(response)
  if (response.status === 401 || response.status === 403) {
    throw new AccessRefused('The registry does not accept this personal key. It may have expired or been revoked.')
  }
  const { data } = Exchanged.safeParse(jsonOf(text))
  if (!response.ok || !data)
    throw new RegistryUnavailable(`The registry answered ${response.status} to a personal key.`)
  return { value: data.access_token, until: server.now() + data.expires_in * 1000 - MARGIN_MS }
}

/** A key that lasts for months goes over TLS, or does not leave this machine. */
function refuseOpenWire(url: string): void {
  const { protocol, hostname } = new URL(url)
  const isHere =
    hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'))
  if (protocol === 'https:' || isHere) return
  throw new RegistryUnavailable('A personal key is sent over https only. Change ASSAY_HARBOR_URL.', { isLasting: true })
}

/** Undefined when it is not JSON. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

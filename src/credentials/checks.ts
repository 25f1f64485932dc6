import { readFile } from 'node:fs/promises'
import { connect, isIP, type Socket } from 'node:net'
import { join } from 'node:path'
import { addAbortSignal } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import {
  type Outbound,
  OutboundFailed,
  OutboundRefused,
  type Trust,
  toErrorCode,
} from '../platform/outbound/outbound.ts'
import { type Resolve, resolveName, resolvePublicHost } from '../platform/outbound/public-host.ts'
import { OUTBOUND_CIPHERS } from '../platform/outbound/tls-limits.ts'
import { hostOf } from '../platform/outbound/url-rules.ts'
import type { Secret } from './seal.ts'

export type CredentialVariables = Record<string, string | undefined>

export type CheckDeps = {
  outbound: Outbound
  /** Base URLs that replace those of providers, set by the operator. */
  upstreams: Record<string, string>
  environment: CredentialVariables
}

export type CredentialVerdict = { ok: boolean; detail: string }
export type CredentialProbe = (deps: CheckDeps, secret: Secret) => Promise<CredentialVerdict>

type ProbeRequest = {
  provider: string
  url: string
  headers: Record<string, string>
  trust: Trust
  /** Sent with POST. */
  body?: Uint8Array<ArrayBuffer>
  /** Status of an answer that accepts the credential but not the request. */
  acceptedStatus?: number
  /** Status of an answer that refuses the credential, besides 401 and 403. */
  refusedStatus?: number
}

/** Timeout of a check. */
const TIMEOUT_MS = 10_000

/** Requests something small that needs a valid key. Only the status of the response is used. */
export async function sendProbe({ outbound }: CheckDeps, request: ProbeRequest): Promise<CredentialVerdict> {
  const { provider, url, headers, trust, body, acceptedStatus, refusedStatus } = request
  try {
    // Redirects are refused: their target gets no key, so its answer says nothing about the key.
    const post = body ? { method: 'POST', body } : {}
    const answer = await outbound.fetch(url, { ...post, headers, trust, timeoutMs: TIMEOUT_MS, redirect: 'error' })
    await answer.body?.cancel()
    if (answer.status === acceptedStatus) return acceptedVerdict(provider)
    if (answer.status === refusedStatus) return refusedVerdict(provider, answer.status)
    return toVerdict(provider, answer.status)
  } catch (error) {
    if (error instanceof OutboundFailed) return { ok: false, detail: `${provider} is unreachable (${error.reason}).` }
    if (error instanceof OutboundRefused)
      return { ok: false, detail: `${provider} was not contacted (${error.reason}).` }
    throw error
  }
}

function toVerdict(provider: string, status: number): CredentialVerdict {
  if (status >= 200 && status < 300) return acceptedVerdict(provider)
  if (status === 401 || status === 403) return refusedVerdict(provider, status)
  if (status === 429) return { ok: false, detail: `${provider} rate-limits our requests (429). Try again later.` }
  return { ok: false, detail: `${provider} responded with ${status}.` }
}

const acceptedVerdict = (provider: string): CredentialVerdict => ({
  ok: true,
  detail: `${provider} accepted the credential.`,
})

const refusedVerdict = (provider: string, status: number): CredentialVerdict => ({
  ok: false,
  detail: `${provider} refused the credential (${status}).`,
})

export const acceptWithoutCheck =
  (detail: string): CredentialProbe =>
  async () => ({ ok: true, detail })

/**
 * Checks only the format of a Harbor key. The first download verifies it, because the service requires its own client.
 */
export const checkHarbor: CredentialProbe = async (_, { apiKey = '' }) =>
  apiKey.startsWith('sk-harbor-')
    ? { ok: true, detail: 'The key has the format of a Harbor key. It was not tested; a download will show.' }
    : { ok: false, detail: 'Harbor keys begin with sk-harbor-.' }

export const checkGithub: CredentialProbe = (deps, { token = '', host = 'github.com' }) => {
  const isPublicGithub = host.toLowerCase() === 'github.com'
  const base = isPublicGithub ? (deps.upstreams.github ?? 'https://api.github.com') : `https://${host}/api/v3`
  const headers = {
    authorization: `Bearer ${token}`,
    accept: 'application/vnd.github+json',
    'user-agent': 'assay',
  }
  return sendProbe(deps, {
    provider: 'github',
    url: `${base}/user`,
    headers,
    trust: isPublicGithub ? 'operator' : 'client',
  })
}

/** Checks the engine of the credential's host, or the engine of this server. */
export const checkDocker: CredentialProbe = async ({ environment }, secret) => {
  const engine = secret.host === undefined ? await findOwnEngine(environment) : parseRemoteEngine(secret.host, secret)
  if (!engine) return { ok: false, detail: 'The address of the engine cannot be checked. Use tcp://HOST:PORT.' }
  const error = await findEngineError(engine)
  return error
    ? { ok: false, detail: `The engine does not respond: ${error}.` }
    : { ok: true, detail: 'The engine responds.' }
}

function parseRemoteEngine(host: string, { ca, cert, key }: Secret): EngineTarget | undefined {
  const url = parseEngineUrl(host)
  return url && { url, tls: { ca, cert, key }, publicOnly: true }
}

/** Finds the engine in the same way as the Docker command line. */
async function findOwnEngine(environment: CredentialVariables): Promise<EngineTarget | undefined> {
  const address = environment.DOCKER_HOST ?? 'unix:///var/run/docker.sock'
  if (address.startsWith('unix://')) return { socketPath: address.slice('unix://'.length) }

  const isTls = Boolean(environment.DOCKER_TLS_VERIFY)
  const url = parseEngineUrl(address, isTls ? TLS_PORT : PLAIN_PORT)
  return url && { url, tls: isTls ? await readOwnCertificates(environment) : undefined, publicOnly: false }
}

async function readOwnCertificates(environment: CredentialVariables) {
  const folder = environment.DOCKER_CERT_PATH ?? join(environment.HOME ?? '', '.docker')
  const [ca, cert, key] = await Promise.all(
    ['ca.pem', 'cert.pem', 'key.pem'].map((file) => readFile(join(folder, file), 'utf8').catch(() => undefined)),
  )
  return { ca, cert, key }
}

/** A Docker engine. Untrusted addresses must be public; the operator's own may be private. */
type EngineTarget =
  | { socketPath: string }
  | {
      url: URL
      tls: { ca?: string | undefined; cert?: string | undefined; key?: string | undefined } | undefined
      publicOnly: boolean
    }

/** Ports that Docker uses by convention. */
const TLS_PORT = '2376'
const PLAIN_PORT = '2375'
const ANSWER_BYTES_MAX = 4096
const PING = 'GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n'

/** Parses `tcp://HOST:PORT`. The host is normalised like in a browser, so that 0x7f.1 is recognised as 127.0.0.1. */
export function parseEngineUrl(address: string, port: string = TLS_PORT): URL | undefined {
  const [, host, ownPort = port] = /^(?:tcp|https):\/\/([^/:@]+|\[[^/@\]]+\])(?::(\d{1,5}))?\/?$/i.exec(address) ?? []
  return host === undefined ? undefined : (URL.parse(`https://${host}:${ownPort}`) ?? undefined)
}

/**
 * Pings an engine. Returns undefined if it responds, otherwise the reason. Uses sockets directly: Docker needs client
 * certificates and unix sockets, which the outbound client does not support.
 */
export async function findEngineError(
  engine: EngineTarget,
  resolve: Resolve = resolveName,
): Promise<string | undefined> {
  try {
    const socket = await dial(engine, resolve)
    if (socket === 'private') return 'the host does not resolve to public addresses only'
    const [, status = 'an invalid answer'] = /^HTTP\/1\.\d (\d{3})/.exec(await ping(socket)) ?? []
    return status === '200' ? undefined : `it responded with ${status}`
  } catch (error) {
    return `it is unreachable (${toErrorCode(error)})`
  }
}

async function dial(engine: EngineTarget, resolve: Resolve): Promise<Socket | 'private'> {
  if ('socketPath' in engine) return connect(engine.socketPath)

  const name = hostOf(engine.url)
  const addresses = engine.publicOnly ? await resolvePublic(name, resolve) : await resolve(name)
  if (engine.publicOnly && addresses.length === 0) return 'private'

  // Connects to the address that was checked. TLS still verifies the name.
  const [host] = addresses
  if (!host) throw new Error(`${name} has no address`) // `connect` would use this machine.
  const target = { host, port: Number(engine.url.port || 443) }
  if (!engine.tls) return connect(target)
  const servername = isIP(name) === 0 ? { servername: name } : {}
  return connectTls({ ...target, ...engine.tls, ...servername, ciphers: OUTBOUND_CIPHERS })
}

/** Resolves to public addresses or to none. Callers cannot tell a private name from one that does not exist. */
async function resolvePublic(name: string, resolve: Resolve): Promise<string[]> {
  const resolution = await resolvePublicHost(name, resolve)
  return resolution.kind === 'public' ? resolution.addresses : []
}

async function ping(socket: Socket): Promise<string> {
  addAbortSignal(AbortSignal.timeout(TIMEOUT_MS), socket)
  socket.write(PING)
  let text = ''
  try {
    for await (const chunk of socket) {
      text += String(chunk)
      if (text.includes('\n') || text.length > ANSWER_BYTES_MAX) break
    }
  } finally {
    socket.destroy()
  }
  return text
}

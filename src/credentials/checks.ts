import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Outbound, OutboundFailed, OutboundRefused, type Trust } from '../platform/outbound/outbound.ts'
import { type EngineTarget, findEngineError, parseEngineUrl } from './engine.ts'
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

const TIMEOUT_MS = 10_000

/** Requests something small that needs a valid key. Only the status of the response is used. */
export async function sendProbe({ outbound }: CheckDeps, request: ProbeRequest): Promise<CredentialVerdict> {
  const { provider, url, headers, trust, body, acceptedStatus, refusedStatus } = request
  try {
    // Redirects are refused: their target gets no key, so its answer says nothing about the key.
    const post = body ? { method: 'POST', body } : {}
    const answer = await outbound.fetch(url, { ...post, headers, trust, timeoutMs: TIMEOUT_MS, redirect: 'error' })
    await answer.body?.cancel()
    if (answer.status === refusedStatus) return refusedVerdict(provider, answer.status)
    return toVerdict(provider, answer.status === acceptedStatus ? 200 : answer.status)
  } catch (error) {
    if (error instanceof OutboundFailed) return { ok: false, detail: `${provider} is unreachable (${error.reason}).` }
    if (error instanceof OutboundRefused)
      return { ok: false, detail: `${provider} was not contacted (${error.reason}).` }
    throw error
  }
}

function toVerdict(provider: string, status: number): CredentialVerdict {
  if (status >= 200 && status < 300) return { ok: true, detail: `${provider} accepted the credential.` }
  if (status === 401 || status === 403) return refusedVerdict(provider, status)
  if (status === 429) return { ok: false, detail: `${provider} rate-limits our requests (429). Try again later.` }
  return { ok: false, detail: `${provider} responded with ${status}.` }
}

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
  if (!engine) return { ok: false, detail: 'Engine addresses of this kind cannot be checked.' }
  const error = await findEngineError(engine)
  return error
    ? { ok: false, detail: `The engine does not respond: ${error}.` }
    : { ok: true, detail: 'The engine responds.' }
}

function parseRemoteEngine(host: string, { ca, cert, key }: Secret): EngineTarget | undefined {
  const url = parseEngineUrl(host)
  return url && { url, tls: toTls({ ca, cert, key }), publicOnly: true }
}

/** Finds the engine in the same way as the Docker command line. */
async function findOwnEngine(environment: CredentialVariables): Promise<EngineTarget | undefined> {
  const address = environment.DOCKER_HOST ?? 'unix:///var/run/docker.sock'
  if (address.startsWith('unix://')) return { socketPath: address.slice('unix://'.length) }

  const isTls = Boolean(environment.DOCKER_TLS_VERIFY)
  const url = parseEngineUrl(address, isTls ? undefined : '2375')
  return url && { url, tls: isTls ? await readOwnCertificates(environment) : undefined, publicOnly: false }
}

async function readOwnCertificates(environment: CredentialVariables) {
  const folder = environment.DOCKER_CERT_PATH ?? join(environment.HOME ?? '', '.docker')
  const [ca, cert, key] = await Promise.all(
    ['ca.pem', 'cert.pem', 'key.pem'].map((file) => readFile(join(folder, file), 'utf8').catch(() => undefined)),
  )
  return toTls({ ca, cert, key })
}

const toTls = ({ ca, cert, key }: Record<'ca' | 'cert' | 'key', string | undefined>) => ({ ca, cert, key })

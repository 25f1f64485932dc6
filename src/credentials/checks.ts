import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Outbound, OutboundFailed, OutboundRefused, type Trust } from '../platform/outbound/outbound.ts'
import { type Engine, engineTrouble, engineUrl } from './engine.ts'
import type { Secret } from './seal.ts'

export type Environment = Record<string, string | undefined>

export type CheckTools = {
  outbound: Outbound
  /** Base URLs that the operator has put in place of the well-known ones, by provider. */
  upstreams: Record<string, string>
  environment: Environment
}

export type Verdict = { ok: boolean; detail: string }
export type Check = (tools: CheckTools, secret: Secret) => Promise<Verdict>

type Question = { provider: string; url: string; headers: Record<string, string>; trust: Trust }

const TIMEOUT_MS = 10_000

/** Asks for something small that only a valid key may see. Nothing of the answer but its status is passed on. */
export async function ask({ outbound }: CheckTools, question: Question): Promise<Verdict> {
  const { provider, url, headers, trust } = question
  try {
    // A page that we were sent on to, without the key, would say nothing about the key.
    const answer = await outbound.fetch(url, { headers, trust, timeoutMs: TIMEOUT_MS, redirect: 'error' })
    await answer.body?.cancel()
    return verdict(provider, answer.status)
  } catch (error) {
    if (error instanceof OutboundFailed)
      return { ok: false, detail: `${provider} cannot be reached (${error.reason}).` }
    if (error instanceof OutboundRefused) return { ok: false, detail: `${provider} is not asked (${error.reason}).` }
    throw error
  }
}

function verdict(provider: string, status: number): Verdict {
  if (status >= 200 && status < 300) return { ok: true, detail: `${provider} accepted the credential.` }
  if (status === 401 || status === 403) return { ok: false, detail: `${provider} refused the credential (${status}).` }
  if (status === 429) return { ok: false, detail: `${provider} limits our requests (429). Try again later.` }
  return { ok: false, detail: `${provider} answered ${status}.` }
}

export const nothingToCheck =
  (detail: string): Check =>
  async () => ({ ok: true, detail })

/** Asking the hub needs its own client; until a dataset is downloaded only the shape can be judged. */
export const checkHarbor: Check = async (_, { apiKey = '' }) =>
  apiKey.startsWith('sk-harbor-')
    ? { ok: true, detail: 'The key has the shape of a Harbor key. It was not tried: a download will show.' }
    : { ok: false, detail: 'Harbor keys begin with sk-harbor-.' }

export const checkGithub: Check = (tools, { token = '', host = 'github.com' }) => {
  const isPublicGithub = host.toLowerCase() === 'github.com'
  const base = isPublicGithub ? (tools.upstreams.github ?? 'https://api.github.com') : `https://${host}/api/v3`
  const headers = {
    authorization: `Bearer ${token}`,
    accept: 'application/vnd.github+json',
    'user-agent': 'assay',
  }
  return ask(tools, { provider: 'github', url: `${base}/user`, headers, trust: isPublicGithub ? 'operator' : 'client' })
}

/** With a host, that engine; without, the one of this server. */
export const checkDocker: Check = async ({ environment }, secret) => {
  const engine = secret.host === undefined ? await ownEngine(environment) : remoteEngine(secret.host, secret)
  if (!engine) return { ok: false, detail: 'The address of the engine is of a kind that cannot be checked.' }
  const trouble = await engineTrouble(engine)
  return trouble
    ? { ok: false, detail: `The engine does not answer: ${trouble}.` }
    : { ok: true, detail: 'The engine answers.' }
}

function remoteEngine(host: string, { ca, cert, key }: Secret): Engine | undefined {
  const url = engineUrl(host)
  return url && { url, tls: tlsOf({ ca, cert, key }), publicOnly: true }
}

/** As the Docker command line finds it. */
async function ownEngine(environment: Environment): Promise<Engine | undefined> {
  const address = environment.DOCKER_HOST ?? 'unix:///var/run/docker.sock'
  if (address.startsWith('unix://')) return { socketPath: address.slice('unix://'.length) }

  const isTls = Boolean(environment.DOCKER_TLS_VERIFY)
  const url = engineUrl(address, isTls ? undefined : '2375')
  return url && { url, tls: isTls ? await ownCertificates(environment) : undefined, publicOnly: false }
}

async function ownCertificates(environment: Environment) {
  const folder = environment.DOCKER_CERT_PATH ?? join(environment.HOME ?? '', '.docker')
  const [ca, cert, key] = await Promise.all(
    ['ca.pem', 'cert.pem', 'key.pem'].map((file) => readFile(join(folder, file), 'utf8').catch(() => undefined)),
  )
  return tlsOf({ ca, cert, key })
}

const tlsOf = ({ ca, cert, key }: Record<'ca' | 'cert' | 'key', string | undefined>) => ({
  ...(ca === undefined ? {} : { ca }),
  ...(cert === undefined ? {} : { cert }),
  ...(key === undefined ? {} : { key }),
})

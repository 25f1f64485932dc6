import { createHash } from 'node:crypto'
import { buildTokenRequest, parseServiceAccount, parseTokenAnswer } from '../../platform/outbound/google-token.ts'
import type { OpenStream } from '../../platform/outbound/open-stream.ts'
import type { Trust } from '../../platform/outbound/outbound.ts'
import { editRequest } from '../body-threads.ts'
import { objectOf, parseObject, textOf } from '../protocols/fields.ts'
import type { WireProtocol } from '../wire-protocol.ts'
import {
  type CloudCall,
  type CloudTransport,
  readShortText,
  type StreamAnswer,
  selectBetas,
  toJsonAnswer,
} from './cloud-transport.ts'

/**
 * Google Vertex AI. The address ends with the project and the location, to which the publisher of the model is added.
 * The endpoint that is compatible with OpenAI only needs the token.
 */
export const vertex: CloudTransport = (openStream, call) => async (url, request) => {
  const { wire, secret } = call
  const headers = withKnownBetas(request.headers)
  const account = secret.serviceAccount ?? ''
  const sent = await toPrediction(call, url, request.body ?? new Uint8Array())
  const send = async (): Promise<StreamAnswer> => {
    const exchanged = await getToken(openStream, account, request)
    if (exchanged.kind === 'refused') return toTokenError(wire, exchanged)
    const authorization = `Bearer ${exchanged.token}`
    return openStream(sent.url, { ...request, headers: { ...headers, authorization }, body: sent.body })
  }
  const first = await send()
  if (first.status < 400) return first
  if (first.status !== 401) return withProtocolError(wire, first)

  // The token may have been revoked.
  await readShortText(first)
  tokens.delete(toCacheKey(account))
  const second = await send()
  return second.status < 400 ? second : withProtocolError(wire, second)
}

/** Keeps the betas that the cloud has, and drops the version of the API, which is in the body. */
function withKnownBetas({
  'anthropic-version': _inBody,
  'anthropic-beta': requested,
  ...headers
}: Record<string, string>) {
  const betas = selectBetas(requested, 'vertex')
  return betas.length > 0 ? { ...headers, 'anthropic-beta': betas.join(',') } : headers
}

const MESSAGES_PATH = /(?:\/v1)?\/messages(\/count_tokens)?(?:\?.*)?$/
const GEMINI_MODEL = /(?:\/v1beta)?\/models\/([^/]+)$/

async function toPrediction({ wire, model }: CloudCall, url: string, body: Uint8Array) {
  if (wire.protocol === 'gemini') return { url: url.replace(GEMINI_MODEL, '/publishers/google/models/$1'), body }
  if (wire.protocol !== 'anthropic-messages') return { url, body }
  const isCount = MESSAGES_PATH.exec(url)?.[1] !== undefined
  const add = { anthropic_version: 'vertex-2023-10-16' }
  const { bytes, isStream } = await editRequest({
    bytes: body,
    remove: [...UNKNOWN_MEMBERS, ...(isCount ? [] : ['model'])],
    add,
  })
  const name = isCount ? 'count-tokens' : encodeURIComponent(model).replaceAll('%40', '@')
  const verb = isStream ? 'streamRawPredict' : 'rawPredict'
  return { url: url.replace(MESSAGES_PATH, `/publishers/anthropic/models/${name}:${verb}`), body: bytes }
}

/** Members that only Anthropic's own service knows. The checks of the gateway allow them with their default alone. */
const UNKNOWN_MEMBERS = ['inference_geo', 'service_tier', 'speed']

type RefusedToken = { kind: 'refused'; status: number; message: string }
type Token = { kind: 'issued'; token: string; until: number } | RefusedToken

/** Access tokens by the digest of their account. Concurrent calls share one exchange. */
const tokens = new Map<string, Promise<Token>>()
const TOKENS_MAX = 1000
/** Tokens are replaced this long before they expire. */
const MARGIN_MS = 5 * 60_000

const toCacheKey = (account: string): string => createHash('sha256').update(account).digest('hex')

type TokenContext = { signal: AbortSignal; trust: Trust }

async function getToken(openStream: OpenStream, account: string, context: TokenContext): Promise<Token> {
  const key = toCacheKey(account)
  const cached = await tokens.get(key)?.catch(() => undefined)
  if (cached?.kind === 'issued' && cached.until > performance.now()) return cached
  if (tokens.size >= TOKENS_MAX) tokens.clear()
  const exchanged = exchangeToken(openStream, account, context)
  tokens.set(key, exchanged)
  return exchanged
}

async function exchangeToken(openStream: OpenStream, account: string, { signal, trust }: TokenContext): Promise<Token> {
  const parsed = parseServiceAccount(account)
  if (!parsed) return { kind: 'refused', status: 401, message: 'The service account cannot be read.' }
  const { url, headers, body } = buildTokenRequest(parsed)
  // The address is part of the credential, so the operator does not vouch for it.
  const tokenTrust = trust === 'operator' ? 'client' : trust
  const answer = await openStream(url, { method: 'POST', headers, body, signal, trust: tokenTrust })
  const text = await readShortText(answer)
  const issued = answer.status === 200 ? parseTokenAnswer(text) : undefined
  if (issued) return { kind: 'issued', token: issued.token, until: performance.now() + issued.lifetimeMs - MARGIN_MS }
  const { error, error_description: description } = parseObject(text) ?? {}
  const message = textOf(description) ?? textOf(error) ?? 'no reason given'
  return { kind: 'refused', status: answer.status, message: `Google issued no token: ${message}` }
}

/** Converts a refused token to a rejected credential. Rate limits and outages of the token service keep their status. */
function toTokenError(wire: WireProtocol, { status, message }: RefusedToken): StreamAnswer {
  const protocolStatus = status === 429 || status >= 500 ? status : 401
  return toJsonAnswer(protocolStatus, wire.formatError(protocolStatus, 'token_refused', message))
}

/** Converts an error of Google itself to one of the protocol. Errors of the model already have its form. */
async function withProtocolError(wire: WireProtocol, answer: StreamAnswer): Promise<StreamAnswer> {
  const { status, headers } = answer
  // Some streams begin with a list of one error.
  const json = parseObject((await readShortText(answer)).replace(/^\s*\[([\s\S]*)\]\s*$/, '$1')) ?? {}
  const error = objectOf(json.error)
  const isProtocolError = wire.protocol === 'gemini' || json.type === 'error'
  if (isProtocolError && Object.keys(json).length > 0) return toJsonAnswer(status, json, headers)
  const message = textOf(error.message) ?? 'no reason given'
  return toJsonAnswer(status, wire.formatError(status, textOf(error.status) ?? 'unknown', message), headers)
}

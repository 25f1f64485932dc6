import { timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { csrfTokenInvalid, forbidden, notFound, Problem, unauthenticated } from '../problem.ts'
import { type Authenticate, type Caller, type KeyCaller, type Presented, permits } from './caller.ts'
import type { Endpoint } from './endpoint.ts'
import { NOTHING } from './methods.ts'
import type { RateLimiter } from './rate-limit.ts'

export const SESSION_COOKIE = 'assay_session'

type Arrival = { request: IncomingMessage; params: Record<string, string>; address: string }
type Admitted = { caller: Caller | undefined; headers: Record<string, string> }
export type Limits = { all: RateLimiter | undefined; signIn: RateLimiter }

/** Who is it, and may they? 401 for a stranger, 404 for another workspace's member, 403 for too low a permission. */
export async function admit(
  tools: { authenticate: Authenticate },
  limits: Limits,
  endpoint: Endpoint,
  arrival: Arrival,
): Promise<Admitted> {
  if (endpoint.access === 'public')
    return { caller: undefined, headers: admitAnyone(limits, endpoint, arrival.address) }
  const caller = await tools.authenticate(presented(arrival.request.headers))
  if (!caller) throw stranger()

  const headers = limits.all?.take(caller.by === 'key' ? `key ${caller.keyId}` : 'operator') ?? {}
  if (endpoint.access === 'operator') requireOperator(caller)
  else requireKey(endpoint, caller, arrival)
  return { caller, headers }
}

/**
 * Takes a token for the address of a public request and returns the rate-limit headers. A sign-in takes none here: its
 * body may never arrive, and only attempts that arrived whole count.
 */
export const admitAnyone = (limits: Limits, { signIn }: Endpoint, address: string): Record<string, string> =>
  (signIn === undefined ? limits.all : undefined)?.take(`address ${address}`) ?? {}

export function presented(headers: IncomingHttpHeaders): Presented {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
  if (bearer) return { bearer }
  const sessionToken = cookie(headers.cookie ?? '', SESSION_COOKIE)
  return sessionToken ? { sessionToken } : {}
}

const cookie = (header: string, name: string): string | undefined =>
  header
    .split(';')
    .map((part) => part.trim())
    .find((part) => part.startsWith(`${name}=`))
    ?.slice(name.length + 1)

export const stranger = () =>
  new Problem(unauthenticated, 'The key is missing, malformed, expired or revoked.', {
    headers: { 'www-authenticate': 'Bearer' },
  })

function requireOperator(caller: Caller): void {
  if (caller.by !== 'operator') throw new Problem(forbidden, 'Only the operator key may do this.')
}

function requireKey(endpoint: Endpoint, caller: Caller, { request, params }: Arrival): void {
  // The operator key belongs to no workspace: to everything inside one it is a stranger.
  if (caller.by !== 'key') throw stranger()
  if (params.org !== undefined && params.org.toLowerCase() !== caller.workspace.login.toLowerCase()) {
    throw new Problem(notFound, NOTHING)
  }
  requirePermission(endpoint, caller)
  if (caller.session && request.method !== 'GET') requireCsrfToken(caller.session.csrfToken, request)
}

function requirePermission(endpoint: Endpoint, caller: KeyCaller): void {
  const needed = endpoint.access
  if (needed !== 'read' && needed !== 'write' && needed !== 'admin') return
  if (permits(caller.permission, needed)) return
  throw new Problem(forbidden, `This needs a key with permission ${needed}; this one has ${caller.permission}.`)
}

function requireCsrfToken(expected: string, request: IncomingMessage): void {
  const sent = Buffer.from(String(request.headers['x-csrf-token'] ?? ''))
  const wanted = Buffer.from(expected)
  if (sent.length === wanted.length && timingSafeEqual(sent, wanted)) return
  throw new Problem(csrfTokenInvalid, 'A browser session sends its CSRF token as X-CSRF-Token with every change.')
}

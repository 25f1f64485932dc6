import type { HttpBindings } from '@hono/node-server'
import { type Context, Hono } from 'hono'
import type { Db } from '../db/db.ts'
import { newId } from '../ids.ts'
import type { Log } from '../log.ts'
import { methodNotAllowed, notFound, Problem } from '../problem.ts'
import { admit, type Limits } from './admit.ts'
import { readJson } from './body.ts'
import type { Authenticate, Caller } from './caller.ts'
import { pathParameterNames, pathParameterPattern } from './endpoint.ts'
import { type Answer, once } from './idempotency.ts'
import { type Limit, rateLimiter } from './rate-limit.ts'
import { failure, respond } from './respond.ts'
import type { Route, UncheckedCall } from './route.ts'
import { readQuery, validate } from './validate.ts'

type Env = { Bindings: HttpBindings }
export type Http = Hono<Env>

export type ServerTools = {
  db: Db
  log: Log
  authenticate: Authenticate
  baseUrl: () => string
  /** Per key, or per address where there is none. Off when absent. */
  limit?: Limit | undefined
  signInLimit: Limit
  observe: (operation: string, status: number, seconds: number) => void
}

/** Answers every route of the list, with problems for all that goes wrong. */
export function createHttp(tools: ServerTools, routes: Route[]): Http {
  const app: Http = new Hono()
  const limits = { all: tools.limit && rateLimiter(tools.limit), signIn: rateLimiter(tools.signInLimit) }
  // Nothing in a request's line can be a secret, and the search for one would cost more than the line.
  const service = { ...tools, lines: tools.log.child({}, { redact: { paths: [] } }) }
  for (const route of routes) {
    const { method, path, id } = route.endpoint
    const work = answerer(tools, limits, route)
    app.on(method, honoPath(path), (c) => timed(service, c, id, work))
  }
  app.notFound((c) => timed(service, c, 'unknown', () => Promise.reject(nothingHere(routes, c.req.path))))
  return app
}

const NOTHING = 'Nothing is at this address.'

const honoPath = (path: string): string => path.replaceAll(/\{([^}]+)\}/g, ':$1')

function nothingHere(routes: Route[], path: string): Problem {
  const atPath = routes.filter(({ endpoint }) => pathPattern(endpoint.path).test(path))
  const allow = [...new Set(atPath.map(({ endpoint }) => endpoint.method))].join(', ')
  if (allow === '') return new Problem(notFound, NOTHING)
  return new Problem(methodNotAllowed, `This address takes ${allow}.`, { headers: { allow } })
}

const pathPattern = (path: string): RegExp =>
  new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{[^}]+\}/g, '[^/]+')}$`)

type Service = ServerTools & { lines: Log }
type Work = (c: Context<Env>, requestId: string) => Promise<Answer>

/** Every request ends here, whatever happened to it: with an id, a line in the log and a count. */
async function timed(service: Service, c: Context<Env>, operation: string, work: Work): Promise<Response> {
  const started = performance.now()
  const requestId = requestIdOf(c.env.incoming.headers['x-request-id'])
  const answer = await work(c, requestId).catch((error: unknown) =>
    failure(error, { log: service.log, baseUrl: service.baseUrl(), requestId }),
  )
  const response = respond(c.env.incoming, answer, requestId)
  const ms = performance.now() - started
  service.observe(operation, response.status, ms / 1000)
  service.lines.info({ requestId, operation, status: response.status, ms: Math.round(ms * 10) / 10 }, 'request')
  return response
}

const requestIdOf = (sent: unknown): string =>
  typeof sent === 'string' && /^[\w.-]{1,128}$/.test(sent) ? sent : newId()

/** The order of checks is the contract's: 401, 429, 404 of the workspace, 403, 413, 415, 400, 404, 422, 409. */
const answerer = (tools: ServerTools, limits: Limits, route: Route): Work => {
  const { endpoint } = route
  const patterns = pathParameterNames(endpoint.path).map((name) => ({ name, pattern: pathParameterPattern(name) }))
  return async (c, requestId) => {
    const address = c.env.incoming.socket.remoteAddress ?? 'unknown'
    const params: Record<string, string> = c.req.param()
    const { caller, headers } = await admit(tools, limits, endpoint, { request: c.env.incoming, params, address })
    const sent = endpoint.body ? await readJson(c.req.raw) : undefined

    if (patterns.some(({ name, pattern }) => !pattern.test(params[name] ?? ''))) throw new Problem(notFound, NOTHING)
    const call: UncheckedCall = { params, query: {}, body: undefined, caller, db: tools.db, requestId, address }
    const found = await route.find?.(call)

    if (endpoint.query) call.query = validate(endpoint.query, readQuery(c.req.url), '/query')
    if (endpoint.body) call.body = validate(endpoint.body, sent)
    const answer = await perform(route, call, found, c.env.incoming.headers['idempotency-key'])
    return { ...answer, headers: { ...answer.headers, ...headers } }
  }
}

function perform(route: Route, call: UncheckedCall, found: unknown, key: unknown): Promise<Answer> {
  const { endpoint } = route
  const work = async (db: Db): Promise<Answer> => {
    const { status, body, headers } = await route.handle({ ...call, db }, found)
    return { status, text: body === undefined ? '' : JSON.stringify(body), headers: headers ?? {} }
  }
  if (!endpoint.creates || typeof key !== 'string') return work(call.db)

  const request = [endpoint.id, call.params, call.query, call.body]
  return once(call.db, { scope: scopeOf(call.caller), key, request, secret: endpoint.showsSecret === true }, work)
}

const scopeOf = (caller: Caller | undefined): string => (caller?.by === 'key' ? caller.workspace.id : 'operator')

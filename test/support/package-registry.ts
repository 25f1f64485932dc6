// A package registry on 127.0.0.1 with Harbor's protocol and scripted faults.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { answer, BadQuery } from './package-registry-queries.ts'
import { isVisible, newRows, type RegistryCaller, type Rows } from './package-registry-rows.ts'

/** A fault of the next matching requests. */
type ScriptedFault = {
  /** Matches paths that contain this text. */
  on: string
  times?: number
} & (
  | { status: number; headers?: Record<string, string>; body?: string }
  | { act: 'hang' }
  /** Closes the connection after half of the announced bytes. */
  | { act: 'break' }
  /** Ends normally with half of the bytes. */
  | { act: 'shorten' }
  | { send: Buffer }
)

export type PackageRegistryServer = AsyncDisposable & {
  url: string
  publicKey: string
  rows: Rows
  /** Creates a key that can see the private packages of these organisations. */
  addKey(orgs: string[]): string
  revokeKey(key: string): void
  /** Revokes all tokens. */
  expireTokens(): void
  misbehave(misdeed: ScriptedFault): void
  /** Received `GET /rest/v1/…` requests. */
  requests: string[]
}

type State = {
  publicKey: string
  rows: Rows
  keys: Map<string, RegistryCaller>
  tokens: Map<string, RegistryCaller>
  misdeeds: ScriptedFault[]
  requests: string[]
}

export async function startPackageRegistry(): Promise<PackageRegistryServer> {
  const state: State = {
    publicKey: `public-${randomUUID()}`,
    rows: newRows(),
    keys: new Map(),
    tokens: new Map(),
    misdeeds: [],
    requests: [],
  }
  const server = createServer((request, response) => {
    serve(state, request, response).catch((error: unknown) => json(response, 500, { message: String(error) }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The registry has no port.')
  return {
    url: `http://127.0.0.1:${address.port}`,
    ...state,
    addKey(orgs) {
      const key = `sk-harbor-${randomUUID()}`
      state.keys.set(key, { orgs })
      return key
    },
    revokeKey: (key) => state.keys.delete(key),
    expireTokens: () => state.tokens.clear(),
    misbehave: (misdeed) => state.misdeeds.push({ times: 1, ...misdeed }),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const json = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) =>
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))

async function serve(state: State, request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  const url = new URL(request.url ?? '', 'http://registry')
  state.requests.push(`${request.method} ${decodeURIComponent(url.pathname + url.search)}`)
  const misdeed = state.misdeeds.find((each) => (each.times ?? 0) > 0 && url.pathname.includes(each.on))
  if (misdeed) {
    misdeed.times = (misdeed.times ?? 0) - 1
    if (await misbehaved(misdeed, objectAt(state, url), response)) return undefined
  }
  if (request.headers.apikey !== state.publicKey) return json(response, 401, { message: 'Invalid API key' })
  const route = `${request.method} ${url.pathname.split('/').slice(0, 3).join('/')}`
  if (route === 'POST /functions/v1') return exchange(state, url, request, response)
  if (route === 'GET /storage/v1') return object(state, url, request, response)
  if (`${request.method} ${url.pathname}` === 'POST /rest/v1/rpc/resolve_task_version') {
    return resolveTask(state, request, response)
  }
  if (route === 'GET /rest/v1') return table(state, url, request, response)
  return json(response, 404, { message: 'no Route matched with those values' })
}

async function misbehaved(
  misdeed: ScriptedFault,
  bytes: Buffer | undefined,
  response: ServerResponse,
): Promise<boolean> {
  if ('status' in misdeed) response.writeHead(misdeed.status, misdeed.headers).end(misdeed.body)
  else if ('send' in misdeed) response.writeHead(200).end(misdeed.send)
  else if (misdeed.act === 'hang') return true
  else if (!bytes) return false
  else if (misdeed.act === 'shorten') response.writeHead(200).end(bytes.subarray(0, bytes.length / 2))
  else {
    response.writeHead(200, { 'content-length': String(bytes.length) })
    response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy())
  }
  return true
}

/** Returns undefined if the token is missing, invalid or revoked. */
function callerOf(state: State, request: IncomingMessage): RegistryCaller | undefined {
  const [, token = ''] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? []
  return token === state.publicKey ? { orgs: [] } : state.tokens.get(token)
}

async function exchange(state: State, url: URL, request: IncomingMessage, response: ServerResponse) {
  if (url.pathname !== '/functions/v1/api-key-exchange') return json(response, 404, { message: 'no such function' })
  const { api_key: key, ...rest } = JSON.parse(await text(request))
  const caller = Object.keys(rest).length === 0 ? state.keys.get(key) : undefined
  if (!caller) return json(response, 401, { error: 'invalid_api_key' })
  const token = `jwt.${randomUUID()}`
  state.tokens.set(token, caller)
  return json(response, 200, { access_token: token, expires_in: 900 })
}

function table(state: State, url: URL, request: IncomingMessage, response: ServerResponse) {
  const caller = callerOf(state, request)
  if (!caller) return json(response, 401, { code: 'PGRST303', message: 'JWT expired' })
  try {
    const { page, offset, total } = answer(state.rows, url.pathname.split('/')[3] ?? '', url.searchParams, caller)
    const isCounted = request.headers.prefer === 'count=exact'
    const range = page.length === 0 ? '*' : `${offset}-${offset + page.length - 1}`
    const status = isCounted && page.length < total ? 206 : 200
    return json(response, status, page, { 'content-range': `${range}/${isCounted ? total : '*'}` })
  } catch (error) {
    if (!(error instanceof BadQuery)) throw error
    return json(response, 400, { code: 'PGRST100', message: error.message })
  }
}

/** Implements the database function that resolves a task by digest. */
async function resolveTask(state: State, request: IncomingMessage, response: ServerResponse) {
  const caller = callerOf(state, request)
  if (!caller) return json(response, 401, { code: 'PGRST303', message: 'JWT expired' })
  const { p_org: org, p_name: name, p_ref: ref, ...rest } = JSON.parse(await text(request))
  if (Object.keys(rest).length > 0) return json(response, 404, { code: 'PGRST202', message: 'no such function' })
  const version = state.rows.taskVersions.find(
    (each) => each.package.org === org && each.package.name === name && `sha256:${each.content_hash}` === ref,
  )
  if (!version || !isVisible(version.package, caller)) return json(response, 200, null)
  const { id, archive_path, content_hash, revision, yanked_at } = version
  return json(response, 200, { id, archive_path, content_hash, revision, yanked_at })
}

const PREFIX = '/storage/v1/object/packages/'
const objectAt = (state: State, url: URL): Buffer | undefined =>
  state.rows.objects.get(decodeURIComponent(url.pathname.slice(PREFIX.length)))

/** Serves a stored object. The storage answers every error with 400. */
function object(state: State, url: URL, request: IncomingMessage, response: ServerResponse) {
  const caller = callerOf(state, request)
  if (!caller) {
    return json(response, 400, {
      statusCode: '403',
      error: 'Unauthorized',
      message: '"exp" claim timestamp check failed',
    })
  }
  const bytes = objectAt(state, url)
  const owner = state.rows.taskVersions.find((each) => url.pathname === PREFIX + each.archive_path)?.package
  if (!bytes || !owner || !isVisible(owner, caller)) {
    return json(response, 400, { statusCode: '404', error: 'not_found', message: 'Object not found' })
  }
  return response
    .writeHead(200, { 'content-type': 'application/gzip', 'content-length': String(bytes.length) })
    .end(bytes)
}

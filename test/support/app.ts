import { appendFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { z } from 'zod'
import { createApp } from '../../src/app.ts'
import { type ConfigEnvironment, readConfig } from '../../src/config.ts'
import type { Endpoint, Params } from '../../src/platform/http/endpoint.ts'
import { listen } from '../../src/platform/listen.ts'
import { createLog } from '../../src/platform/log.ts'
import { createMetrics } from '../../src/platform/metrics.ts'
import { openServices } from '../../src/services.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { createWorkspace, ensureBootstrapKey } from '../../src/workspaces/workspaces.ts'
import { type TestDatabase, testDatabase } from './database.ts'

/** An address on which nothing listens, so that no test reaches a real provider. */
const UNREACHABLE_URL = 'http://127.0.0.1:9'

export const OPERATOR_KEY = 'operator-key-for-tests-0123456789'

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape; their schemas are checked on arrival
export type TestResponse = { status: number; body: any; headers: Headers; text: string }

type CallOptions<E extends Endpoint> = {
  params?: Partial<Params<E>>
  query?: Record<string, string>
  body?: (E['body'] extends z.ZodType ? z.input<E['body']> : never) | undefined
  upload?: Uint8Array
  key?: string | null | undefined
  headers?: Record<string, string>
}

/** Starts the entire service on its own port, with its own database or a shared one. Tests call it over HTTP. */
export async function testApp(environment: ConfigEnvironment = {}, shared?: TestDatabase) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-test-'))
  const config = readConfig({
    ASSAY_DATA: folder,
    ASSAY_OPERATOR_KEY: OPERATOR_KEY,
    ASSAY_GATEWAY_UPSTREAM_GITHUB: UNREACHABLE_URL,
    ASSAY_GATEWAY_URL: UNREACHABLE_URL,
    ...environment,
  })
  const database = shared ?? (await testDatabase())
  const lines: string[] = []
  const log = createLog('debug', (line) => lines.push(line))
  const adminKey = newKey()
  await ensureBootstrapKey(database.db, adminKey)

  const tools = { ...(await openServices(config, database, log)), metrics: recording() }
  const listening = await listen(createApp(tools).handle, '127.0.0.1', 0)
  tools.setListeningUrl(listening.url)
  const { url } = listening

  return {
    url,
    tools,
    database,
    adminKey,
    /** The log of the service. */
    logged: () => lines.join(''),
    ...caller(url, adminKey),
    /** Creates another workspace with an admin key. */
    async otherWorkspace(login = 'other') {
      const { key, row } = await createWorkspace(database.db, { login, name: login, kind: 'org' }, { actor: 'system' })
      return { key, id: row.id, login }
    },
    async [Symbol.asyncDispose]() {
      await listening.stop(1000)
      if (!shared) await database[Symbol.asyncDispose]()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

export type TestApp = Awaited<ReturnType<typeof testApp>>

/** Records every (operation, status) that a test has seen. The last suite compares the record with the OpenAPI document. */
function recording() {
  const metrics = createMetrics()
  const seen = new Set<string>()
  return {
    ...metrics,
    observeRequest(operation: string, status: number, seconds: number) {
      metrics.observeRequest(operation, status, seconds)
      const pair = `${operation} ${status}\n`
      if (seen.has(pair)) return
      seen.add(pair)
      appendFileSync(inject('ledger'), pair)
    },
  }
}

function caller(url: string, adminKey: string) {
  const fetchText = async (path: string, init: RequestInit = {}): Promise<TestResponse> => {
    const response = await fetch(url + path, { redirect: 'manual', ...init })
    const text = await response.text()
    const isJson = text !== '' && /json/.test(response.headers.get('content-type') ?? '')
    return { status: response.status, body: isJson ? JSON.parse(text) : undefined, headers: response.headers, text }
  }

  const call = async <const E extends Endpoint>(endpoint: E, options: CallOptions<E> = {}): Promise<TestResponse> => {
    const params: Record<string, string | undefined> = { org: 'local', ...options.params }
    const path = endpoint.path.replaceAll(/\{([^}]+)\}/g, (_, name) => encodeURIComponent(params[name] ?? `{${name}}`))
    const query = options.query ? `?${new URLSearchParams(options.query)}` : ''
    const key = options.key === undefined ? adminKey : options.key
    const content = contentOf(endpoint, options)
    const answer = await fetchText(path + query, {
      method: endpoint.method,
      headers: {
        ...(key ? { authorization: `Bearer ${key}` } : {}),
        ...content.headers,
        ...options.headers,
      },
      ...content.init,
    })
    checkShape(endpoint, answer)
    return answer
  }

  return { fetch: fetchText, call }
}

function contentOf({ upload }: Endpoint, options: { body?: unknown; upload?: Uint8Array }) {
  if (upload && options.upload)
    return { headers: { 'content-type': upload.mediaType }, init: { body: new Uint8Array(options.upload) } }
  if (options.body === undefined) return { headers: {}, init: {} }
  return { headers: { 'content-type': 'application/json' }, init: { body: JSON.stringify(options.body) } }
}

/** Fails the test if a response does not match its contract, whatever the test asserts. */
function checkShape(endpoint: Endpoint, answer: TestResponse): void {
  if (answer.status === 304) return
  if (answer.status === 200 && (endpoint.download || endpoint.media !== undefined)) return
  if (answer.status >= 400) {
    requireProblem(endpoint, answer)
    return
  }
  const schema = endpoint.answers[answer.status]
  if (schema === undefined)
    throw new Error(`${endpoint.id} answered ${answer.status}, which its contract does not list.`)
  if (schema === null && answer.text !== '') throw new Error(`${endpoint.id} answered a body where there is none.`)
  if (schema !== null) schema.parse(answer.body)
}

function requireProblem(endpoint: Endpoint, answer: TestResponse): void {
  const { type, title, status, detail, code, requestId, retryable } = answer.body ?? {}
  const texts = [type, title, detail, code, requestId].every((text) => typeof text === 'string' && text !== '')
  if (!texts || status !== answer.status || typeof retryable !== 'boolean') {
    throw new Error(`${endpoint.id} answered ${answer.status} without a problem: ${answer.text.slice(0, 300)}`)
  }
}

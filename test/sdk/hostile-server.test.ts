import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterEach, expect, test, vi } from 'vitest'
import { Assay, AssayProblem, AssayUnreachable } from '../../sdk/typescript/src/client.ts'
import { call, ProblemReceived, ServiceUnreachable } from '../../src/platform/http/client.ts'
import { connectRepository, readRepository } from '../../src/repos/schema.ts'
import { readOwnKey } from '../../src/workspaces/schema.ts'
import { listenOnLoopback } from '../support/loopback-servers.ts'

const KEY = 'assay_0123456789'
const HOSTILE = '\u001b]0;owned\u0007\u009b2J\u202e\r\nassay ready'
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}]/u

/** 257 MiB of spaces. */
const BOMB = gzipSync(Buffer.alloc(257 * 1024 * 1024, ' '))

type Ending = { error: string; message: string }

/** Calls one operation with the Python SDK and returns the error that it raises. */
async function callInPython(url: string, operation: string): Promise<Ending> {
  const program = `
import json, sys, time
from assay_sdk import Assay
assay = Assay(sys.argv[1], key="${KEY}", retries=0)
try:
    ${operation}
    print(json.dumps({"error": "none", "message": ""}))
except Exception as error:
    print(json.dumps({"error": type(error).__name__, "message": str(error)}))
`
  const { PATH = '' } = process.env
  const PYTHONPATH = new URL('../../sdk/python', import.meta.url).pathname
  const child = spawn('python3', ['-c', program, url], { env: { PATH, PYTHONPATH, PYTHONDONTWRITEBYTECODE: '1' } })
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  expect(err).toBe('')
  return JSON.parse(out)
}

const toEnding = (error: Error): Ending => ({ error: error.constructor.name, message: error.message })

/** The same calls with each client: read the own key, and connect a repository. */
const CLIENTS = [
  {
    name: 'the TypeScript SDK',
    read: (url: string): Promise<Ending> =>
      new Assay({ url, key: KEY, retries: 0 })
        .call('readOwnKey')
        .then(() => ({ error: 'none', message: '' }), toEnding),
    write: (url: string): Promise<Ending> =>
      new Assay({ url, key: KEY, retries: 0 })
        .call('connectRepository', { params: { org: 'lab', owner: 'a', name: 'b' }, body: {} as never })
        .then(() => ({ error: 'none', message: '' }), toEnding),
    unreachable: AssayUnreachable.name,
    problem: AssayProblem.name,
  },
  {
    name: 'the Python SDK',
    read: (url: string) => callInPython(url, 'assay.read_own_key()'),
    write: (url: string) => callInPython(url, 'assay.connect_repository("lab", "a", "b", body={})'),
    unreachable: 'AssayUnreachable',
    problem: 'AssayProblem',
  },
  {
    name: 'the command line',
    read: (url: string): Promise<Ending> =>
      call({ url, key: KEY }, readOwnKey).then(() => ({ error: 'none', message: '' }), toEnding),
    write: (url: string): Promise<Ending> =>
      call({ url, key: KEY }, connectRepository, {
        params: { org: 'lab', owner: 'a', name: 'b' },
        body: {},
      } as never).then(() => ({ error: 'none', message: '' }), toEnding),
    unreachable: ServiceUnreachable.name,
    problem: ProblemReceived.name,
  },
] as const

test.each(CLIENTS)('$name follows no redirect, which would receive the key or the body', async (client) => {
  for (const status of [301, 302, 303, 307, 308]) {
    const stolen: string[] = []
    using thief = await listenOnLoopback(({ method, url }, response) => {
      stolen.push(`${method} ${url}`)
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"org":"stolen"}')
    }, '127.0.0.2')
    using server = await listenOnLoopback(
      (_, response) => void response.writeHead(status, { location: `${thief.url}/x` }).end(),
    )
    expect(await client.read(server.url)).toMatchObject({
      error: client.unreachable,
      message: expect.stringContaining('redirect'),
    })
    expect(await client.write(server.url)).toMatchObject({ error: client.unreachable })
    expect(stolen).toEqual([])
  }
})

test.each(CLIENTS)('$name reports an answer that is not JSON as another program', async (client) => {
  using server = await listenOnLoopback(
    (_, response) => void response.writeHead(200, { 'content-type': 'text/html' }).end(`<html>${HOSTILE}`),
  )
  const { error, message } = await client.read(server.url)
  expect([client.unreachable, 'SyntaxError']).toContain(error)
  if (error !== 'SyntaxError') expect(message).not.toMatch(CONTROL)
})

test.each(CLIENTS)('$name refuses a small answer that unpacks to a huge one', async (client) => {
  using server = await listenOnLoopback(
    (_, response) =>
      void response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }).end(BOMB),
  )
  expect(await client.read(server.url)).toMatchObject({ error: client.unreachable })
})

test.each(CLIENTS.slice(0, 2))('an error of $name commands no terminal', async (client) => {
  const problem = {
    type: 'x',
    title: HOSTILE,
    status: 422,
    detail: HOSTILE,
    code: HOSTILE,
    requestId: 'x',
    retryable: false,
  }
  using server = await listenOnLoopback(
    (_, response) =>
      void response.writeHead(422, { 'content-type': 'application/problem+json' }).end(JSON.stringify(problem)),
  )
  const { error, message } = await client.read(server.url)
  expect(error).toBe(client.problem)
  expect(message).toContain('assay ready')
  expect(message).not.toMatch(CONTROL)
})

test('names of one or two dots lead to no other operation', async () => {
  const paths: string[] = []
  using server = await listenOnLoopback(({ url = '' }, response) => {
    paths.push(url)
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  })
  for (const [owner, name] of [
    ['..', 'keys'],
    ['a', '..'],
    ['.', 'b'],
    ['a', ''],
  ] as const) {
    const params = { org: 'lab', owner, name }
    await expect(new Assay({ url: server.url, key: KEY }).call('readRepository', { params })).rejects.toThrow('name')
    await expect(call({ url: server.url, key: KEY }, readRepository, { params })).rejects.toThrow('name')
    const { error } = await callInPython(server.url, `assay.read_repository("lab", "${owner}", "${name}")`)
    expect(error).toBe('ValueError')
  }
  expect(paths).toEqual([])
})

test('a list whose pages repeat does not go on for ever', async () => {
  using server = await listenOnLoopback(
    (_, response) =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end('{"keys":[],"nextCursor":"same"}'),
  )
  const read = async () => {
    for await (const page of new Assay({ url: server.url, key: KEY }).pages('listKeys', { params: { org: 'lab' } }))
      expect(page).toBeDefined()
  }
  await expect(read()).rejects.toThrow(AssayUnreachable)
  const { error } = await callInPython(server.url, 'list(assay.pages(assay.list_keys, "lab"))')
  expect(error).toBe('AssayUnreachable')
})

/** Returns an endless answer that arrives a byte at a time. The clock advances by a minute with each of them. */
function answerSlowly(): Promise<Response> {
  let minutes = 0
  vi.spyOn(performance, 'now').mockImplementation(() => minutes * 60_000)
  const body = new ReadableStream({
    pull(controller) {
      minutes += 1
      controller.enqueue(Buffer.from(' '))
    },
  })
  return Promise.resolve(new Response(body))
}
afterEach(() => void vi.restoreAllMocks())

const TOO_SLOW = /too large or too slow/

test('the TypeScript SDK does not wait for an answer that comes a byte now and then', async () => {
  const assay = new Assay({ url: 'http://127.0.0.1:9', key: KEY, retries: 0, fetch: answerSlowly })
  await expect(assay.call('readOwnKey')).rejects.toThrow(TOO_SLOW)
})

test('the command line does not wait for an answer that comes a byte now and then', async () => {
  const options = { url: 'http://127.0.0.1:9', key: KEY, fetch: answerSlowly }
  await expect(call(options, readOwnKey)).rejects.toThrow(TOO_SLOW)
})

test('the Python SDK does not wait for an answer that comes a byte now and then', async () => {
  using server = await listenOnLoopback((_, response) => void response.end(' '.repeat(1_000_000)))
  const clock = 'ticks = iter(range(0, 10**9, 60)); time.monotonic = lambda: next(ticks)'
  const { message } = await callInPython(server.url, `${clock}; assay.read_own_key()`)
  expect(message).toMatch(TOO_SLOW)
})

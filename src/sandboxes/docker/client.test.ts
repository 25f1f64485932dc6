import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { SandboxUnavailable } from '../sandbox.ts'
import { connectDocker } from './client.ts'

/** An engine with scripted answers. */
async function openEngine(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const folder = await mkdtemp(join(tmpdir(), 'assay-engine-'))
  const server = createServer(answer).listen(join(folder, 'socket'))
  await once(server, 'listening')
  const docker = connectDocker({ kind: 'unix', path: join(folder, 'socket') })
  return {
    docker,
    async [Symbol.asyncDispose]() {
      docker.close()
      server.closeAllConnections()
      server.close()
      await rm(folder, { recursive: true })
    },
  }
}

const SHORT = { timeoutMs: 20 }

test('a request that the engine never answers is a failure of the sandbox, and names the request', async () => {
  await using engine = await openEngine(() => {})
  const start = engine.docker.call('POST', '/containers/x/start', SHORT)
  await expect(start).rejects.toThrow(SandboxUnavailable)
  await expect(start).rejects.toThrow('POST /containers/x/start in time')
  await expect(engine.docker.attach('/exec/x/start', SHORT)).rejects.toThrow('POST /exec/x/start in time')
})

test('a truncated answer fails the reader', async () => {
  await using engine = await openEngine((_, response) => void response.writeHead(200).write('{"some":'))
  await expect(engine.docker.call('GET', '/containers/x/json', SHORT)).rejects.toThrow(SandboxUnavailable)
  const answer = await engine.docker.open('GET', '/containers/x/archive', SHORT)
  await expect(buffer(answer)).rejects.toThrow(SandboxUnavailable)
})

test('an answer in time is read, and a caller that aborts gets its own reason', async () => {
  await using engine = await openEngine((request, response) => {
    if (request.url === '/quick') response.end('{"quick":true}')
  })
  expect(await engine.docker.call('GET', '/quick')).toEqual({ quick: true })
  const reason = new Error('given up')
  const signal = AbortSignal.abort(reason)
  await expect(engine.docker.call('GET', '/slow', { signal })).rejects.toBe(reason)
})

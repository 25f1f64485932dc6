import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { SandboxUnavailable } from '../sandbox.ts'
import { readMessages } from './build.ts'
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
  // Long enough for the beginning of the answer on a busy machine.
  const answer = await engine.docker.open('GET', '/containers/x/archive', { timeoutMs: 1000 })
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

test('an endless answer is cut off, also one with an error status', async () => {
  await using engine = await openEngine((request, response) => {
    response.writeHead(request.url === '/refused' ? 500 : 200)
    const chunk = Buffer.alloc(1024 * 1024, ' ')
    const write = (): void => {
      while (!response.destroyed && response.write(chunk)) {}
    }
    response.on('drain', write)
    write()
  })
  await expect(engine.docker.call('GET', '/containers/json')).rejects.toThrow('too large')
  await expect(engine.docker.call('GET', '/refused')).rejects.toThrow('too large')
})

test('an answer in a million parts is cut off, before and after its status', async () => {
  await using engine = await openEngine((request, response) => {
    const writePart = request.url === '/hints' ? () => response.writeProcessing() : () => response.write(' ')
    const timer = setInterval(writePart, 0)
    response.on('close', () => clearInterval(timer))
  })
  await expect(engine.docker.call('GET', '/hints')).rejects.toThrow('too many parts')
  await expect(engine.docker.call('GET', '/chunks')).rejects.toThrow('too many parts')
})

test.each([
  ['nested a million levels deep', `${'['.repeat(1e6)}${']'.repeat(1e6)}`],
  ['that is no JSON', 'no JSON'],
])('an answer %s is a failure of the sandbox', async (_, answer) => {
  await using engine = await openEngine((_request, response) => void response.end(answer))
  await expect(engine.docker.call('GET', '/info')).rejects.toThrow('invalid answer')
})

test('an endless line of a build is cut off', async () => {
  const endless = Readable.from(Array(8).fill(Buffer.alloc(1024 * 1024, 'x')))
  await expect(readMessages(endless, () => {})).rejects.toThrow(SandboxUnavailable)
  const lines: string[] = []
  await readMessages(Readable.from([Buffer.from('{"stream":"a\\n"}\n{"status"'), Buffer.from(':"b"}\n')]), (line) =>
    lines.push(line),
  )
  expect(lines).toEqual(['a', 'b'])
})

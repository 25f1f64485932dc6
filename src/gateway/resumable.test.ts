import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { connect, createServer } from 'node:net'
import { json } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import {
  beginEvents,
  EVENTS,
  type GatewayFixture,
  message,
  messagesRequest,
  newGrantFacts,
  openGatewayFixture,
  type ProviderHandler,
  sendJson,
} from '../../test/support/gateway/gateway.ts'
import { type RelayProcess, startRelayProcess } from '../../test/support/gateway/relay.ts'
import { closeGrant, openGrant, readGrant, renewGrant } from './grants.ts'
import { type GatewayPort, openSandboxPort } from './sandbox-port.ts'

type Setup = Parameters<typeof openGatewayFixture>[1] & { relayMs?: number }

/** A sandbox whose relay outlives its workers. */
async function openResumableSandbox(answer: ProviderHandler, { relayMs, ...setup }: Setup = {}) {
  await using undo = new AsyncDisposableStack()
  const fixture = undo.use(await openGatewayFixture(answer, setup))
  const relay = undo.use(await startRelayProcess(relayMs === undefined ? {} : { resumeMs: relayMs }))
  const grant = await openGrant(fixture.ledger, newGrantFacts())
  const post = (changes: object = {}, signal?: AbortSignal) =>
    fetch(`http://127.0.0.1:${relay.port}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': grant.token, 'content-type': 'application/json' },
      body: JSON.stringify(messagesRequest(changes)),
      ...(signal && { signal }),
    })
  const running = undo.move()
  return { fixture, relay, grant, post, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

const openPort = ({ gateway }: Pick<GatewayFixture, 'gateway'>, tunnelSecret: string): GatewayPort =>
  openSandboxPort({ gatewayUrl: gateway.url, tunnelSecret, isResumable: true })

type Worker = AsyncDisposable & { port: GatewayPort }

async function startWorker(
  { gateway }: Pick<GatewayFixture, 'gateway'>,
  relay: RelayProcess,
  tunnelSecret = '',
): Promise<Worker> {
  const port = openPort({ gateway }, tunnelSecret)
  const listening = await relay.listen(port.onConnection)
  return { port, [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose]() }
}

/** Answers with the first event, and with the others when `next` resolves. */
function streamInTwoParts() {
  const [next, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const answer: ProviderHandler = async (response) => {
    response.once('close', left.resolve)
    beginEvents(response).write(EVENTS[0])
    await next.promise
    response.end(EVENTS.slice(1).join(''))
  }
  return { answer, next: next.resolve, left: left.promise }
}

test('a call whose worker is replaced ends whole and is in the ledger once', async () => {
  const { answer, next } = streamInTwoParts()
  await using sandbox = await openResumableSandbox(answer)
  const { fixture, relay, grant } = sandbox
  const first = await startWorker(fixture, relay, grant.tunnelSecret)

  const response = await sandbox.post({ stream: true })
  await first[Symbol.asyncDispose]()
  next()
  const renewed = await renewGrant(fixture.ledger, grant.id)
  await using second = await startWorker(fixture, relay, renewed?.tunnelSecret)

  expect(await response.text()).toBe(EVENTS.join(''))
  expect(fixture.received).toHaveLength(1)
  expect(await readGrant(fixture.ledger, grant.id)).toMatchObject({ costMicros: 111, calls: { succeeded: 1, open: 0 } })
  expect((await fixture.ledger.read(grant.id))?.calls).toMatchObject([{ outcome: 'succeeded', clientLeft: false }])
  expect(second.port.isCutOff()).toBe(false)
})

test('a call of a worker that hangs continues when another one listens', async () => {
  const { answer, next } = streamInTwoParts()
  await using sandbox = await openResumableSandbox(answer)
  const { fixture, relay, grant } = sandbox
  const inner = createServer(openPort(fixture, grant.tunnelSecret).onConnection).listen(0, '127.0.0.1')
  await once(inner, 'listening')
  const address = inner.address()
  let isHanging = false
  await using _hanging = await relay.listen((socket) => {
    const far = connect(Number(typeof address === 'object' && address?.port), '127.0.0.1').on('error', () => {})
    socket.on('data', (chunk) => isHanging || far.write(chunk))
    far.on('data', (chunk) => isHanging || socket.write(chunk))
  })
  const response = await sandbox.post({ stream: true })
  isHanging = true

  const renewed = await renewGrant(fixture.ledger, grant.id)
  await using _second = await startWorker(fixture, relay, renewed?.tunnelSecret)
  next()

  expect(await response.text()).toBe(EVENTS.join(''))
  expect(fixture.received).toHaveLength(1)
  inner.close()
})

test('a port that is closed aborts the calls that nobody reads', async () => {
  const { answer, left } = streamInTwoParts()
  await using sandbox = await openResumableSandbox(answer, { options: { drainMs: 10 } })
  const { fixture, relay, grant } = sandbox
  await using worker = await startWorker(fixture, relay, grant.tunnelSecret)
  const response = await sandbox.post({ stream: true })

  worker.port.close()

  await left
  await response.body?.cancel()
  expect(await closeGrant(fixture.ledger, grant.id)).toMatchObject({ calls: { open: 0 } })
  expect((await fixture.ledger.read(grant.id))?.calls).toMatchObject([{ clientLeft: true }])
  expect(fixture.gateway.tunnels()).toBe(0)
})

test('a call without a worker is aborted in the end', async () => {
  const { answer, left } = streamInTwoParts()
  await using sandbox = await openResumableSandbox(answer, { options: { drainMs: 10, resumeMs: 100 }, relayMs: 100 })
  const worker = await startWorker(sandbox.fixture, sandbox.relay, sandbox.grant.tunnelSecret)
  const response = await sandbox.post({ stream: true })

  await worker[Symbol.asyncDispose]()

  await left
  await expect(response.text()).rejects.toThrow('terminated')
})

test('an agent that leaves aborts its call, also while there is no worker', async () => {
  for (const isWorkerGone of [false, true]) {
    const { answer, left } = streamInTwoParts()
    await using sandbox = await openResumableSandbox(answer, { options: { drainMs: 10 } })
    const { fixture, relay, grant } = sandbox
    const worker = await startWorker(fixture, relay, grant.tunnelSecret)
    const leaving = new AbortController()
    await sandbox.post({ stream: true }, leaving.signal)
    if (isWorkerGone) await worker[Symbol.asyncDispose]()
    leaving.abort()
    await using _next = isWorkerGone ? await startWorker(fixture, relay, grant.tunnelSecret) : undefined
    await left
    await worker[Symbol.asyncDispose]()
  }
})

test('a new connection waits for a worker', async () => {
  await using sandbox = await openResumableSandbox((response) => sendJson(response, message()))
  const answer = sandbox.post()
  await using _worker = await startWorker(sandbox.fixture, sandbox.relay, sandbox.grant.tunnelSecret)
  expect(await (await answer).json()).toEqual(message())
})

test('a new connection gets an answer if there is no worker or no gateway', async () => {
  await using sandbox = await openResumableSandbox((response) => sendJson(response, message()), { relayMs: 100 })
  const { fixture, relay, grant } = sandbox
  expect((await sandbox.post()).status).toBe(503)
  await using rejected = await startWorker(fixture, relay, 'invalid')
  expect((await sandbox.post()).status).toBe(503)
  expect(rejected.port.isCutOff()).toBe(false)
  await rejected[Symbol.asyncDispose]()

  await using worker = await startWorker(fixture, relay, grant.tunnelSecret)
  await fixture.gateway.stop(0)
  expect((await sandbox.post()).status).toBe(503)
  expect(worker.port.isCutOff()).toBe(true)
})

test('a gateway that stops ends its connections', async () => {
  const { answer } = streamInTwoParts()
  await using sandbox = await openResumableSandbox(answer)
  await using _worker = await startWorker(sandbox.fixture, sandbox.relay, sandbox.grant.tunnelSecret)
  const response = await sandbox.post({ stream: true })

  await sandbox.fixture.gateway.stop(0)

  await expect(response.text()).rejects.toThrow('terminated')
})

test('a worker of another grant cannot take over a connection', async () => {
  const { answer, left } = streamInTwoParts()
  await using sandbox = await openResumableSandbox(answer, { options: { drainMs: 10, resumeMs: 500 }, relayMs: 200 })
  const { fixture, relay, grant } = sandbox
  const worker = await startWorker(fixture, relay, grant.tunnelSecret)
  const response = await sandbox.post({ stream: true })
  await worker[Symbol.asyncDispose]()

  const other = await openGrant(fixture.ledger, newGrantFacts())
  await using _other = await startWorker(fixture, relay, other.tunnelSecret)

  await expect(response.text()).rejects.toThrow('terminated')
  await left
})

test('idle connections are reused, and counted as tunnels', async () => {
  await using sandbox = await openResumableSandbox((response) => sendJson(response, message()))
  await using _worker = await startWorker(sandbox.fixture, sandbox.relay, sandbox.grant.tunnelSecret)
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const url = `http://127.0.0.1:${sandbox.relay.port}/v1/messages`
  const headers = { 'x-api-key': sandbox.grant.token, 'content-type': 'application/json' }
  for (let count = 0; count < 3; count += 1) {
    const sent = request(url, { method: 'POST', agent, headers }).end(JSON.stringify(messagesRequest()))
    const [answer] = await once(sent, 'response')
    expect(await json(answer)).toEqual(message())
  }
  expect(sandbox.fixture.gateway.tunnels()).toBe(1)
  agent.destroy()
  await expect.poll(() => sandbox.fixture.gateway.tunnels()).toBe(0)
})

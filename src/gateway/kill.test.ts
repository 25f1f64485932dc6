import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { testDatabase } from '../../test/support/database.ts'
import {
  beginEvents,
  EVENTS,
  message,
  messagesRequest,
  newGrantFacts,
  sendJson,
} from '../../test/support/gateway/gateway.ts'
import { startServer } from '../../test/support/loopback-servers.ts'
import { startProgram } from '../../test/support/program.ts'
import { ModelCallFailed } from '../harnesses/conversation.ts'
import { newId } from '../platform/ids.ts'
import { closeGrant, openGrant, readGrant } from './grants.ts'
import { openModelConnection } from './model-connection.ts'
import { openSandboxPort } from './sandbox-port.ts'
import { createStoredLedger } from './stored-ledger.ts'
import { decideVerdict } from './verdict.ts'

const PROCESS = new URL('../../test/support/gateway/gateway-process.ts', import.meta.url).pathname

test('a call of a killed gateway is lost and stands at its reservation', async () => {
  const workspaceId = newId()
  await using database = await testDatabase({ workspaceId })
  let count = 0
  await using provider = await startServer((request, response) => {
    request.resume()
    count += 1
    if (count === 1) return sendJson(response, message())
    beginEvents(response).write(EVENTS[0])
  })
  const ledger = createStoredLedger(database.db, { silenceMs: 50 })
  const grant = await openGrant(ledger, newGrantFacts({ workspaceId, budgetMicros: 1_000_000 }))
  const program = await startProgram(PROCESS, [database.url, `http://127.0.0.1:${provider.port}`])
  const sandbox = await loopback(
    openSandboxPort({ gatewayUrl: program.url, tunnelSecret: grant.tunnelSecret }).onConnection,
  )
  const post = (body: object) =>
    fetch(`${sandbox.url}/v1/messages`, {
      method: 'POST',
      headers: { 'x-api-key': grant.token, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })

  expect(await (await post(messagesRequest())).json()).toEqual(message())
  const answer = await post(messagesRequest({ stream: true }))
  await answer.body?.getReader().read()
  await program.kill('SIGKILL')

  const [done, died] = (await ledger.read(grant.id))?.calls ?? []
  expect(done).toMatchObject({ outcome: 'succeeded', costMicros: 111, costSource: 'metered' })
  expect(died).toMatchObject({ outcome: 'open', costSource: 'reserved' })
  expect(died?.costMicros).toBe(died?.reservedMicros)
  expect(died?.costMicros).toBeGreaterThan(111)
  const closed = await closeGrant(ledger, grant.id, { drainMs: 100 })
  expect(closed).toMatchObject({ costSource: 'reserved', calls: { succeeded: 1, lost: 1 } })
  expect(closed.costMicros).toBe(111 + (died?.reservedMicros ?? 0))
  expect(await readGrant(ledger, grant.id)).toEqual(closed)
  expect(decideVerdict(GIVEN_UP, closed)).toMatchObject({ state: 'errored', class: 'provider_error' })
  sandbox.close()
})

/** As a program ends that does not ask twice. */
const GIVEN_UP = { state: 'failed', class: 'agent_exit', error: null } as const

test('a dead gateway excuses a harness that runs outside the sandbox', async () => {
  const workspaceId = newId()
  await using database = await testDatabase({ workspaceId })
  await using provider = await startServer((request, response) => {
    request.resume()
    sendJson(response, message())
  })
  const program = await startProgram(PROCESS, [database.url, `http://127.0.0.1:${provider.port}`])
  const gateway = { ledger: createStoredLedger(database.db), gatewayUrl: program.url }
  const access = { ...SPEECH, baseUrl: 'http://127.0.0.1:1' }
  const { trialModel, close } = await openModelConnection(gateway, { ...newGrantFacts({ workspaceId }), access })
  const ask = () =>
    trialModel.ask?.({ system: '', messages: [{ role: 'user', text: 'hello' }], signal: new AbortController().signal })

  await ask()
  await program.kill('SIGKILL')
  await expect(ask()).rejects.toThrow(ModelCallFailed)

  expect(decideVerdict(GIVEN_UP, await close())).toMatchObject({ state: 'errored', class: 'provider_error' })
})

const SPEECH = {
  model: 'large-1',
  provider: 'acme',
  protocols: ['anthropic-messages' as const],
  contextTokens: 1,
  outputTokens: 1000,
  protocol: 'anthropic-messages' as const,
  level: 'high' as const,
  wireLevel: { effort: 'high' },
}

async function loopback(onConnection: Parameters<typeof createServer>[1] & {}) {
  const server = createServer(onConnection)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port.')
  return { url: `http://127.0.0.1:${address.port}`, close: () => server.close() }
}

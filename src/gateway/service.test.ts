import { connect, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { testDatabase } from '../../test/support/database.ts'
import {
  message,
  messagesRequest,
  newGrantFacts,
  OPERATOR_KEY,
  sendJson,
  TERMS,
} from '../../test/support/gateway/gateway.ts'
import { startServer } from '../../test/support/loopback-servers.ts'
import { startService } from '../../test/support/service.ts'
import { readConfig } from '../config.ts'
import { findNewestCredential } from '../credentials/credentials.ts'
import { createOutbound } from '../platform/outbound/outbound.ts'
import { newKey } from '../workspaces/key.ts'
import { ensureBootstrapKey } from '../workspaces/workspaces.ts'
import { closeGrant, openGrant } from './grants.ts'
import { openSandboxPort, SANDBOX_GATEWAY_URL } from './sandbox-port.ts'
import { createStoredLedger } from './stored-ledger.ts'

const CANARY = 'sk-ant-canary-4f1d8a6c0b'

test('the service sends a call with the key of a credential and keeps the key out of the ledger', async () => {
  await using database = await testDatabase()
  await using provider = await startServer((request, response) => {
    request.resume()
    sendJson(response, message())
  })
  const environment = {
    DATABASE_URL: database.url,
    ANTHROPIC_API_KEY: CANARY,
    ASSAY_GATEWAY_UPSTREAM_ANTHROPIC: `http://127.0.0.1:${provider.port}/`,
  }
  await ensureBootstrapKey(database.db, newKey())
  const service = await startService('gateway', ['--port', '0'], environment)
  const { db } = database
  const { id: workspaceId } = await db
    .selectFrom('workspaces')
    .select('id')
    .where('login', '=', 'local')
    .executeTakeFirstOrThrow()
  const tools = { db, keyring: undefined, outbound: createOutbound(), ...readConfig(environment) }
  const credential = await findNewestCredential(tools, workspaceId, { kind: 'model', provider: 'anthropic' })
  const ledger = createStoredLedger(db)
  const terms = { ...TERMS, provider: 'anthropic' }
  const grant = await openGrant(ledger, newGrantFacts({ workspaceId, credentialId: credential?.id ?? '', terms }))
  const port = openSandboxPort({ gatewayUrl: service.url, tunnelSecret: grant.tunnelSecret })
  const server = createServer(port.onConnection)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const url = SANDBOX_GATEWAY_URL.replace(String(port.port), String(typeof address === 'object' && address?.port))

  const answer = await fetch(`${url}/v1/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${grant.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(messagesRequest()),
  })

  expect([answer.status, await answer.json()]).toEqual([200, message()])
  expect(provider.requests).toMatchObject([{ path: '/v1/messages', headers: { 'x-api-key': CANARY } }])
  expect(await closeGrant(ledger, grant.id)).toMatchObject({ costMicros: 111, costSource: 'metered' })
  const rows = [
    await db.selectFrom('gateway_grants').selectAll().execute(),
    await db.selectFrom('gateway_calls').selectAll().execute(),
  ]
  for (const secret of [CANARY, grant.token, grant.tunnelSecret]) expect(JSON.stringify(rows)).not.toContain(secret)
  port.close()
  server.close()
  expect(await service.kill('SIGTERM')).toBe(0)
})

test('a standalone gateway reports its health, rejects requests without a tunnel and stops cleanly', async () => {
  await using database = await testDatabase()
  const service = await startService('gateway', ['--port', '0'], {
    DATABASE_URL: database.url,
    ASSAY_OPERATOR_KEY: OPERATOR_KEY,
  })

  // The first admin key is made and printed by the API, and by no other role.
  expect(service.newKey).toBeUndefined()
  expect((await database.pool.query('select id from workspaces')).rows).toEqual([])
  expect((await fetch(`${service.url}/healthz`)).status).toBe(200)
  expect((await fetch(`${service.url}/metrics`)).status).toBe(401)
  const metrics = await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${OPERATOR_KEY}` } })
  expect([metrics.status, metrics.headers.get('content-type')]).toEqual([200, expect.stringMatching(/^text\/plain/)])
  expect(await metrics.text()).toMatch(/^assay_gateway_tunnels 0$/m)
  expect((await fetch(`${service.url}/metrics`, { method: 'POST' })).status).toBe(403)
  expect((await fetch(`${service.url}/api/orgs`)).status).toBe(403)
  const idle = connect({ host: '127.0.0.1', port: Number(new URL(service.url).port) })
  await new Promise((resolve) => idle.once('connect', resolve))
  idle.on('error', () => {})
  expect(await service.kill('SIGTERM')).toBe(0)
})

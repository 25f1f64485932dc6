import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test, vi } from 'vitest'
import { startProvider } from '../../samples/provider/provider.ts'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import { createCredential } from '../../src/credentials/schema.ts'
import { call } from '../../src/platform/http/client.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { freePort } from '../support/system-postgres.ts'
import { CHAOS, writeDataset } from './dataset.ts'
import { patientUser } from './patient.ts'
import { supervise } from './supervised.ts'

vi.setConfig({ testTimeout: 600_000 })

const [TASKS, ATTEMPTS] = [4, 2]
const USAGE = { input: 1000, cacheRead: 200, cacheWrite5m: 100, output: 50 }
// 2, 0.20, 2.50 and 10 USD per million tokens.
const CALL_MICROS = 2790
const turns = [
  { run: 'true', usage: USAGE },
  { run: 'true', usage: USAGE },
  { say: 'Done.', usage: USAGE },
]
const folder = mkdtempSync(join(tmpdir(), 'assay-spend-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test('spend is counted exactly once, whichever process is killed during a call', async () => {
  await using undo = new AsyncDisposableStack()
  const provider = undo.use(await startProvider({ tasks: [{ match: 'greet', turns }] }))
  const database = undo.use(await testDatabase())
  writeDataset(join(folder, 'registry'), TASKS)
  const [apiPort, gatewayPort, key] = [await freePort(), await freePort(), newKey()]
  const environment = {
    DATABASE_URL: database.url,
    ASSAY_DATABASE_CONNECTIONS: '6',
    ASSAY_DATA: join(folder, 'data'),
    ASSAY_SECRET_KEY: randomBytes(32).toString('hex'),
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_PORT: String(apiPort),
    ASSAY_GATEWAY_PORT: String(gatewayPort),
    ASSAY_GATEWAY_URL: `http://127.0.0.1:${gatewayPort}`,
    ASSAY_GATEWAY_UPSTREAM_ANTHROPIC: provider.url,
    ASSAY_REGISTRIES: `dir:${join(folder, 'registry')}`,
    ASSAY_SANDBOXES: 'local',
    ASSAY_ALLOW_HOST_BASE: '1',
    ASSAY_WORKER_SLOTS: '2',
  }
  const gateway = supervise('gateway', environment)
  const [api, worker] = [supervise('api', environment), supervise('work', environment)]
  for (const program of [gateway, api, worker]) undo.defer(async () => void (await program.stop()))
  const at = { url: `http://127.0.0.1:${apiPort}`, key }
  const id = await compare(at)

  for (const victim of [gateway, worker, api, gateway, worker]) {
    // The call in progress during a kill is never answered.
    provider.addFault({ hang: 'before' })
    await provider.whenCalls(provider.calls().length + 1)
    await victim.kill()
    await victim.ready()
    // Nothing waits for the hanging call.
    if (victim === api) await gateway.kill()
  }
  await vi.waitUntil(async () => (await patientUser(at).read(id)).state === 'completed', { timeout: 400_000 })

  const { trials } = await patientUser(at).read(id)
  expect(trials).toMatchObject({ total: TASKS * ATTEMPTS, queued: 0, running: 0 })
  // A call of a gateway that has just died is only lost when that gateway has been silent for a while.
  const { grants, calls, metered, lost } = await vi.waitUntil(() => findSettledLedger(database), { timeout: 120_000 })
  expect(lost).toBeGreaterThan(0)
  expect(calls).toBe(grants)
  const { costUsd } = await patientUser(at).read(id)
  expect(Math.round((costUsd ?? 0) * 1e6)).toBe(grants)
  // Everything that the provider bills is counted, and completed calls at exactly the billed cost.
  const billed = provider.calls().filter(({ usage }) => usage !== null).length * CALL_MICROS
  expect(metered % CALL_MICROS).toBe(0)
  expect(metered).toBeLessThanOrEqual(billed)
  expect(billed).toBeLessThanOrEqual(grants)
})

/** Reads the sums of the ledger. Returns undefined while a call is open or the spend of a grant is not counted. */
async function findSettledLedger({ pool }: TestDatabase) {
  const { rows } = await pool.query(
    `select (select sum(spent_micros)::int from gateway_grants) as grants,
      (select count(*)::int from gateway_grants where closed_at is null or counted_at is null) as uncounted,
      (select sum(cost_micros)::int from gateway_calls) as calls,
      (select count(*)::int from gateway_calls where outcome = 'open') as open,
      (select count(*)::int from gateway_calls where outcome = 'lost') as lost,
      (select sum(cost_micros)::int from gateway_calls where outcome = 'succeeded') as metered`,
  )
  const [{ uncounted, open, ...sums }] = rows
  return uncounted + open === 0 ? sums : undefined
}

async function compare(at: { url: string; key: string }): Promise<string> {
  await patientUser(at).addBenchmark()
  const secret = { apiKey: 'sk-0123456789abcdef' }
  const body = { kind: 'model' as const, provider: 'anthropic', name: 'Team key', secret }
  const { body: credential } = await call(at, createCredential, { params: CHAOS, body })
  const id = randomUUID()
  const sandboxCredentialId = await vi.waitUntil(
    async () => {
      const { sandboxes } = (await call(at, inBenchmark.catalog, { params: CHAOS })).body
      return sandboxes.find((sandbox) => sandbox.id === 'local')?.credentials[0]?.id
    },
    { timeout: 120_000 },
  )
  const catalogId = 'anthropic/claude-sonnet-5'
  const models = [{ catalogId, credentialId: credential.id, harnesses: ['mini'], reasoningLevel: 'high' }]
  await call(at, inBenchmark.create, {
    params: CHAOS,
    body: { id, models, attempts: ATTEMPTS, sandbox: 'local', sandboxCredentialId },
  })
  return id
}

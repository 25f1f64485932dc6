import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { startProvider } from '../../samples/provider/provider.ts'
import { addHarness, sendBundle } from '../../src/catalog/custom-harnesses/schema.ts'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import type { ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'
import { type ClientOptions, call } from '../../src/platform/http/client.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { addScriptedSetting } from '../serve/compare-scripted.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { provideNode } from '../support/harnesses/scripted-gateway.ts'
import { hasPart, isLongRun } from '../support/parts.ts'
import { freePort } from '../support/system-postgres.ts'
import { CHAOS } from './dataset.ts'
import { HANDOVER_ENGINES } from './handover-engines.ts'
import { patientUser } from './patient.ts'
import { type Supervised, supervise } from './supervised.ts'

const KILLS = isLongRun() ? 50 : 2
const [TASKS, ATTEMPTS] = isLongRun() ? [9, 3] : [1, 2]
const TRIALS = TASKS * ATTEMPTS
const TEST_MS = isLongRun() ? 3_600_000 : 600_000

const PROGRAM = new URL('../support/harnesses/streaming-agent/', import.meta.url).pathname
const SCRIPT = `printf '%s\\n' '#!/bin/bash' 'printf "Hello, %s!\\n" "\${1:-world}"' > /app/greet.sh && chmod +x /app/greet.sh`
const USAGE = { input: 1000, output: 50 }
/** A stream of several seconds, during which a worker can be killed. */
const slowly = { trouble: { pauseMs: 400 }, usage: USAGE }
const turns = [
  { say: 'I look at the folder before I write anything.', run: 'ls /app', ...slowly },
  { say: 'I write the script.', run: SCRIPT, ...slowly },
  { say: 'I think about what is left to do, and find nothing.', run: 'true', ...slowly },
  { say: 'It greets.', ...slowly },
]
const org = { org: 'local' }

describe.each(HANDOVER_ENGINES.filter(({ isPossible }) => isPossible && hasPart('harnesses')))('$sandbox', (engine) => {
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await startFleet(engine)
  }, 300_000)
  afterAll(() => fleet?.[Symbol.asyncDispose]())

  test(`agents survive ${KILLS} kills and a stop of their worker: no model call is broken or repeated`, {
    timeout: TEST_MS,
  }, async () => {
    const { provider, database, listSandboxes } = fleet
    const id = await compare(fleet, ATTEMPTS)
    for (let kills = 0; kills < KILLS; kills += 1) await killDuringCall(fleet)
    await killDuringCall(fleet, 'SIGTERM')

    const trials = await readCompleted(fleet, id)
    expect(trials.filter(({ state, retries }) => state !== 'passed' || retries > 0)).toEqual([])
    const calls = TRIALS * turns.length
    expect(await readLedger(database)).toEqual({ grants: TRIALS, calls, succeeded: calls })
    expect(provider.calls()).toHaveLength(calls)
    // The last sandbox is removed after its trial has ended.
    await expect.poll(listSandboxes).toEqual([])
  })

  test('an agent whose sandbox is gone starts again with a new grant', { timeout: TEST_MS }, async () => {
    const { database, removeSandboxesOf } = fleet
    const before = await readLedger(database)
    // One more than before, because earlier results are reused.
    const id = await compare(fleet, ATTEMPTS + 1)
    await removeSandboxesOf(await killDuringCall(fleet))

    const trials = await readCompleted(fleet, id)
    expect(trials.filter(({ state }) => state !== 'passed')).toEqual([])
    expect((await readLedger(database)).grants).toBeGreaterThan(before.grants + TASKS)
  })
})

type Fleet = Awaited<ReturnType<typeof startFleet>>

/** Starts an API, a gateway and two workers, with an engine and a model provider of their own. */
async function startFleet({ sandbox, open }: (typeof HANDOVER_ENGINES)[number]) {
  await using undo = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'assay-handover-'))
  undo.defer(() => rmSync(folder, { recursive: true, force: true }))
  const [data, registry] = [join(folder, 'data'), join(folder, 'registry')]
  const { environment: engineEnvironment, ...engine } = undo.use(await open(folder, registry, TASKS))
  const provider = undo.use(await startProvider({ tasks: [{ match: '/app/greet.sh', turns }] }))
  const database = undo.use(await testDatabase())
  await provideNode(data)
  const key = newKey()
  const [apiPort, gatewayPort] = [await freePort(), await freePort()]
  const environment = {
    ...engineEnvironment,
    DATABASE_URL: database.url,
    ASSAY_DATABASE_CONNECTIONS: '6',
    ASSAY_DATA: data,
    ASSAY_SECRET_KEY: randomBytes(32).toString('hex'),
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_PORT: String(apiPort),
    ASSAY_GATEWAY_PORT: String(gatewayPort),
    ASSAY_GATEWAY_URL: `http://127.0.0.1:${gatewayPort}`,
    ASSAY_GATEWAY_UPSTREAM_CUSTOM_SCRIPTED: `${provider.url}/v1`,
    ASSAY_REGISTRIES: `dir:${registry}`,
    ASSAY_WORKER_SLOTS: '1',
  }
  const roles = ['gateway', 'api', 'work', 'work'] as const
  const programs = roles.map((role) => supervise(role, environment))
  for (const program of programs) undo.defer(async () => void (await program.stop()))
  await Promise.all(programs.map((program) => program.ready()))
  const at = { url: `http://127.0.0.1:${apiPort}`, key }
  const setting = await addScriptedSetting(at, [await addStreamingAgent(at)], sandbox)
  const all = undo.move()
  return {
    ...engine,
    at,
    provider,
    database,
    setting,
    workers: programs.slice(2),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

async function readCompleted(fleet: Fleet, id: string): Promise<ComparisonTrial[]> {
  const user = patientUser(fleet.at)
  await vi.waitUntil(async () => (await user.read(id)).state === 'completed', { timeout: TEST_MS, interval: 500 })
  return user.trials(id)
}

/** Kills or stops a worker while a call of its agent is open. Returns its process id. */
async function killDuringCall(fleet: Fleet, signal?: 'SIGKILL' | 'SIGTERM'): Promise<number> {
  const findVictim = async (): Promise<Supervised | undefined> => {
    const pids = await listWorkersInCalls(fleet.database)
    return fleet.workers.find((worker) => pids.includes(worker.pid()))
  }
  const victim = await vi.waitUntil(findVictim, { timeout: 300_000, interval: 50 })
  const pid = victim.pid()
  await victim.kill(signal)
  await victim.ready()
  return pid
}

/**
 * Lists the processes whose agents are recorded, so that another can adopt them, and wait for a model. On a slow machine the
 * signal arrives when an agent has ended after its last call, so only earlier calls count. A trial that was killed twice runs
 * alone, and is left in peace.
 */
async function listWorkersInCalls({ pool }: TestDatabase): Promise<number[]> {
  const { rows } = await pool.query<{ pid: number }>(
    `select process_id as pid from gateway_calls
     join gateway_grants on gateway_grants.id = grant_id
     join running_agents using (grant_id)
     join jobs on subject = 'trial ' || jobs.id and deaths < 2
     join workers on workers.id = worker_id
     where outcome = 'open' and jobs.state = 'running'
       and (select count(*) from gateway_calls as started where started.grant_id = gateway_calls.grant_id) < $1`,
    [turns.length],
  )
  return rows.map(({ pid }) => pid)
}

async function readLedger({ pool }: TestDatabase) {
  const { rows } = await pool.query(
    `select (select count(*)::int from gateway_grants) as grants, (select count(*)::int from gateway_calls) as calls,
      (select count(*)::int from gateway_calls where outcome = 'succeeded') as succeeded`,
  )
  return rows[0]
}

async function compare(fleet: Fleet, attempts: number): Promise<string> {
  const id = randomUUID()
  await call(fleet.at, inBenchmark.create, { params: CHAOS, body: { id, attempts, ...fleet.setting } })
  return id
}

async function addStreamingAgent(at: ClientOptions): Promise<string> {
  const upload = new Blob([await buffer(create({ gzip: true, cwd: PROGRAM }, ['.']))])
  const { body: sent } = await call(at, sendBundle, { params: org, upload })
  const id = 'custom/streaming-agent'
  await call(at, addHarness, {
    params: org,
    body: {
      id,
      name: 'Streaming agent',
      version: '1',
      protocols: ['openai-chat'],
      levels: { high: 'high' },
      command: ['{node}', '{bundle}/agent.mjs', '{baseUrl}', '{model}', '{level}'],
      files: [{ path: '.agent/settings.json', text: '{"token":"{token}"}' }],
      bundle: { digest: sent.digest, node: true, probe: ['{node}', '{bundle}/agent.mjs', '--version'] },
    },
  })
  return id
}

import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { addBenchmark } from '../src/benchmarks/schema.ts'
import { inBenchmark } from '../src/comparisons/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { newKey } from '../src/workspaces/key.ts'
import { postgresFolder } from '../test/support/parts.ts'
import { type Program, startProgram } from '../test/support/program.ts'
import { startSystemPostgres } from '../test/support/system-postgres.ts'
import { cpuSeconds, postmasterOf } from './cpu.ts'
import {
  atLeast,
  atMost,
  type BenchMeasurement,
  type MeasureRow,
  mebibytes,
  milliseconds,
  note,
  perSecond,
  seconds,
  times,
} from './measure.ts'
import { withPostgres } from './postgres.ts'

const PROCESS = new URL('../test/support/comparison-process.ts', import.meta.url).pathname
const TASKS = 500
const SUBSCRIBERS = 1000
const READS = 200

export const comparisonsBench: BenchMeasurement = {
  name: 'Comparisons',
  about: `A benchmark of ${TASKS} tasks, a mock sandbox engine, an API process, a process for submissions and two workers with 16 slots each, on a durable embedded PostgreSQL.`,
  run: async () => {
    const system = await measureOnSystemPostgres()
    return withPostgres((url) =>
      withLab(url, async (lab) => {
        const submitted = await measureSubmissions(lab)
        const embedded = await measureThroughput(lab)
        return [
          ...submitted,
          ...(system ? [atLeast(`${THROUGHPUT_LABEL}, on ${system.version}`, system.rate, 200, perSecond)] : []),
          atLeast(`${THROUGHPUT_LABEL}, on the embedded PostgreSQL`, embedded.rate, 160, perSecond),
          ...(system
            ? [atLeast('embedded PostgreSQL, ratio to the system PostgreSQL', embedded.rate / system.rate, 0.8, times)]
            : []),
          ...embedded.rows,
          ...(await measureStatusReads(lab)),
          ...(await measureSubscribers(lab)),
        ]
      }),
    )
  },
}

const THROUGHPUT_LABEL = 'trials per second through the control plane, two workers'

/** Measures the throughput on the system's PostgreSQL with default durability, if it is installed. */
async function measureOnSystemPostgres(): Promise<{ rate: number; version: string } | undefined> {
  const bin = postgresFolder()
  if (bin === undefined) return undefined
  const postgres = await startSystemPostgres(bin, { durable: true })
  try {
    const { rate } = await withLab(postgres.url, measureThroughput)
    return {
      rate,
      version: /PostgreSQL\)? [\d.]+/.exec(postgres.version)?.[0].replace(')', '') ?? 'another PostgreSQL',
    }
  } finally {
    postgres.stop()
  }
}

/** Starts an installation to measure, passes it to `work`, and stops it afterwards. */
export async function withLab<T>(url: string, work: (lab: ComparisonLab) => Promise<T>): Promise<T> {
  const lab = await openLab(url)
  try {
    return await work(lab)
  } finally {
    await lab.close()
  }
}

export type ComparisonLab = Awaited<ReturnType<typeof openLab>>
const BENCHMARK_PARAMS = { org: 'local', datasetOrg: 'lab', dataset: 'many' }

/** Starts an API process and a submission process with a benchmark of `TASKS` tasks. Workers are started on request. */
async function openLab(url: string) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-bench-'))
  writeTasks(join(folder, 'registry/lab/many'))
  const key = newKey()
  const environment = {
    DATABASE_URL: url,
    ASSAY_DATA: folder,
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_WORKER_SLOTS: '16',
    ASSAY_REGISTRIES: `dir:${join(folder, 'registry')}`,
    ASSAY_DATABASE_CONNECTIONS: '20',
  }
  const start = (role: string) => startProgram(PROCESS, [role], environment)
  const api = await start('api')
  const programs: Program[] = [api, await start('submit')]
  const client = { url: api.url, key }
  await call(client, addBenchmark, { params: { org: 'local' }, body: { reference: 'lab/many' } })
  const { body: catalog } = await call(client, inBenchmark.catalog, { params: BENCHMARK_PARAMS })
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  const chooseModels = (count: number, harnesses: number) =>
    catalog.models
      .filter(({ catalogId }) => catalogId.startsWith('bench/'))
      .slice(0, count)
      .map(({ catalogId, credentials, harnesses: all }) => ({
        catalogId,
        credentialId: credentials[0]?.id ?? '',
        harnesses: all.slice(0, harnesses),
      }))
  return {
    api,
    client,
    pool,
    async start(role: string): Promise<Program> {
      const program = await start(role)
      programs.push(program)
      return program
    },
    async create(modelCount: number, harnesses: number, attempts: number) {
      const sandboxCredentialId = catalog.sandboxes[0]?.credentials[0]?.id ?? ''
      const id = randomUUID()
      const body = { id, sandbox: 'local', sandboxCredentialId, attempts, models: chooseModels(modelCount, harnesses) }
      return (await call(client, inBenchmark.create, { params: BENCHMARK_PARAMS, body })).body
    },
    async quote(modelCount: number, harnesses: number, attempts: number) {
      const body = { sandbox: 'local', attempts, models: chooseModels(modelCount, harnesses) }
      return (await call(client, inBenchmark.quote, { params: BENCHMARK_PARAMS, body })).body
    },
    read: async (comparisonId: string) => {
      const params = { ...BENCHMARK_PARAMS, comparisonId }
      return (await call(client, inBenchmark.read, { params })).body
    },
    async close() {
      await pool.end()
      await Promise.all(programs.map((program) => program.kill('SIGKILL')))
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const TASK = {
  'task.toml': 'schema_version = "1.4"\n[agent]\ntimeout_sec = 60\n[verifier]\ntimeout_sec = 60\n',
  'environment/Dockerfile': 'FROM debian:bookworm-slim\n',
  'tests/test.sh': 'echo 1 > /logs/verifier/reward.txt\n',
  'solution/solve.sh': 'true\n',
}

function writeTasks(folder: string): void {
  for (let n = 0; n < TASKS; n++) {
    for (const [path, text] of Object.entries({ ...TASK, 'instruction.md': `Do number ${n}.\n` })) {
      const file = join(folder, `task-${n}`, path)
      mkdirSync(dirname(file), { recursive: true })
      writeFileSync(file, text)
    }
  }
}

export async function untilState(lab: ComparisonLab, id: string, state: string): Promise<void> {
  while ((await lab.read(id)).state !== state) await wait(100)
}

async function measureSubmissions(lab: ComparisonLab): Promise<MeasureRow[]> {
  const rows: MeasureRow[] = []
  for (const { size, models, attempts, secondsMax } of [
    { size: 30_000, models: 12, attempts: 1, secondsMax: 5 },
    { size: 100_000, models: 4, attempts: 10, secondsMax: 20 },
  ]) {
    const started = performance.now()
    const { id } = await lab.create(models, 5, attempts)
    const answered = performance.now()
    await untilState(lab, id, 'running')
    const enqueued = performance.now()
    const { trials } = await lab.read(id)
    if (trials.queued !== size) throw new Error(`${trials.queued} of ${size} trials are queued.`)
    rows.push(atMost(`create with ${size} trials, answered`, (answered - started) / 1000, 1, seconds))
    rows.push(atMost(`${size} trials, fully enqueued`, (enqueued - started) / 1000, secondsMax, seconds))
    if (size === 30_000) await cancel(lab, id)
  }
  return rows
}

const cancel = (lab: ComparisonLab, comparisonId: string) => {
  const params = { ...BENCHMARK_PARAMS, comparisonId }
  return call(lab.client, inBenchmark.cancel, { params })
}

async function measureThroughput(lab: ComparisonLab): Promise<{ rate: number; rows: MeasureRow[] }> {
  const { rows: open } = await lab.pool.query(`select id from comparisons where state = 'running'`)
  for (const { id } of open) await cancel(lab, id)
  await lab.pool.query('vacuum analyze')
  const before = await databaseBytes(lab)
  const { id } = await lab.create(4, 5, 1)
  await untilState(lab, id, 'running')
  const waiting = await databaseBytes(lab)
  const database = await postmasterOf(lab.pool)
  const workers = await Promise.all([lab.start('work'), lab.start('work')])
  const pids = workers.map((worker) => worker.process.pid ?? 0)
  const [queued, started] = [(await lab.read(id)).trials.queued, performance.now()]
  const readCpuSeconds = () => [sum(pids.map(cpuSeconds)), cpuSeconds(database)]
  const [workersBefore = 0, databaseBefore = 0] = readCpuSeconds()
  await untilState(lab, id, 'completed')
  const tookSeconds = (performance.now() - started) / 1000
  const [workersAfter = 0, databaseAfter = 0] = readCpuSeconds()
  const perTrial = (seconds: number): string => milliseconds((1000 * seconds) / queued)
  const after = await databaseBytes(lab)
  const total = TASKS * 20
  const kibibytes = (bytes: number): string => `${(bytes / 1024).toFixed(2)} KiB`
  const rows = [
    note('CPU time per trial: workers', perTrial(workersAfter - workersBefore)),
    note('CPU time per trial: database', perTrial(databaseAfter - databaseBefore)),
    atMost('database growth per trial, completed', (after - before) / total, 2048, kibibytes),
    note('database growth per trial, queued', kibibytes((waiting - before) / total)),
  ]
  return { rate: queued / tookSeconds, rows }
}

const sum = (numbers: number[]): number => numbers.reduce((all, each) => all + each, 0)

async function databaseBytes({ pool }: ComparisonLab): Promise<number> {
  const { rows } = await pool.query('select pg_database_size(current_database())::bigint as bytes')
  return Number(rows[0].bytes)
}

async function measureStatusReads(lab: ComparisonLab): Promise<MeasureRow[]> {
  const small = await lab.create(4, 5, 1)
  await untilState(lab, small.id, 'completed')
  const smallMs = await p95(lab, small.id)
  const { rows } = await lab.pool.query(
    `select id, key from comparisons join (select comparison, count(*) from trials group by 1) as n on comparison = key
     where count = 100000 limit 1`,
  )
  await insertLargeComparisons(lab.pool, rows[0].key)
  return [
    atMost(
      'status read, p95: comparison of 100,000 trials, 1,000,000 in the database',
      await p95(lab, rows[0].id),
      20,
      milliseconds,
    ),
    note('status read, p95: comparison of 10,000 trials, smaller database', milliseconds(smallMs)),
  ]
}

/** Inserts nine more comparisons of maximum size. */
async function insertLargeComparisons(pool: pg.Pool, key: number): Promise<void> {
  for (let n = 0; n < 9; n++) {
    await pool.query(
      `with copy as (
         insert into comparisons (workspace_id, id, scope_kind, scope_owner, scope_name, request_hash, state, sandbox,
           sandbox_credential_id, skip_completed, attempts, settings)
         select workspace_id, gen_random_uuid(), scope_kind, scope_owner, scope_name, request_hash, 'completed', sandbox,
           sandbox_credential_id, skip_completed, attempts, settings from comparisons where key = $1 returning key
       )
       insert into trials (comparison, ordinal, task, setting, attempt, state)
       select copy.key, ordinal, task, setting, attempt, 'passed' from copy cross join trials where comparison = $1`,
      [key],
    )
  }
  await pool.query('analyze')
}

/** Returns the 95th percentile of status read times, in milliseconds. */
export async function p95(lab: ComparisonLab, id: string): Promise<number> {
  const times: number[] = []
  for (let n = 0; n < READS; n++) {
    const started = performance.now()
    await lab.read(id)
    times.push(performance.now() - started)
  }
  return times.sort((a, b) => a - b)[Math.floor(READS * 0.95)] ?? Number.NaN
}

async function measureSubscribers(lab: ComparisonLab): Promise<MeasureRow[]> {
  const { rows } = await lab.pool.query(`select id from comparisons where state = 'canceled' limit 1`)
  await lab.pool.query(`update comparisons set state = 'paused' where id = $1`, [rows[0].id])
  const path = `/api/orgs/local/benchmarks/lab/many/evaluations/comparisons/${rows[0].id}/events`
  const abort = new AbortController()
  const headers = { authorization: `Bearer ${lab.client.key}` }
  const before = memoryOf(lab.api)
  const readers = []
  for (let n = 0; n < SUBSCRIBERS; n++) {
    const response = await fetch(lab.client.url + path, { headers, signal: abort.signal })
    const reader = response.body?.getReader()
    await reader?.read()
    readers.push(reader)
  }
  await wait(3000)
  const after = memoryOf(lab.api)
  abort.abort()
  return [
    atMost(`memory that ${SUBSCRIBERS} event subscribers add to the API process`, after - before, 200, mebibytes),
    note('memory of the API process with these subscribers', mebibytes(after)),
  ]
}

const memoryOf = ({ process: { pid } }: Program): number =>
  Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024

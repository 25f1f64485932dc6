import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { ComparisonTrial } from '../src/comparisons/shapes/schema.ts'
import { type Fleet, startParts } from '../test/chaos/fleet.ts'
import { type PatientUser, patientUser } from '../test/chaos/patient.ts'
import { until } from '../test/chaos/storm.ts'
import { postgresFolder } from '../test/support/parts.ts'
import { createNamespace, HELPER_IMAGE, testKubeconfig } from '../test/support/sandboxes/kubernetes-subject.ts'
import { atMost, type BenchMeasurement, type MeasureRow, note } from './measure.ts'

const run = promisify(execFile)
const TASKS = 5
const ATTEMPTS = 10
const TRIALS = TASKS * 2 * ATTEMPTS
const SLOTS_PER_WORKER = 15
/** Small enough that the memory of one machine does not leave slots empty. */
const TASK_MEMORY_MB = 256
const IDLE_SECONDS = 30

/** Constants of docs/scaling.md. */
export const clusterLoadBench: BenchMeasurement = {
  name: 'Load on a cluster',
  about: `Whether ${TRIALS} small trials in Kubernetes sandboxes have one result each, and what they cost the API server, the database and the storage: an API and two workers with ${SLOTS_PER_WORKER} slots each, counters of the API server and of PostgreSQL before and after. The load of ${IDLE_SECONDS} idle seconds is subtracted for the time that the trials took.`,
  run: async () => (testKubeconfig === undefined ? [] : measureLoad(testKubeconfig)),
}

async function measureLoad(kubeconfig: string): Promise<MeasureRow[]> {
  const folder = mkdtempSync(join(tmpdir(), 'assay-cluster-load-'))
  await using place = await createNamespace(kubeconfig)
  const settings = join(folder, 'kubernetes.yaml')
  const { namespace } = place
  writeFileSync(settings, JSON.stringify({ kubeconfig, namespace, helperImage: HELPER_IMAGE, cpuRequest: 0.05 }))
  await using fleet = await startParts(postgresFolder() ?? '', TASKS, {
    name: 'kubernetes',
    sample: 'inventory-on-a-prebuilt-image',
    memoryMb: TASK_MEMORY_MB,
    environment: {
      ASSAY_SANDBOXES: 'kubernetes',
      ASSAY_KUBERNETES: settings,
      ASSAY_WORKER_SLOTS: String(SLOTS_PER_WORKER),
    },
  })
  try {
    return await compare(fleet, kubeconfig)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function compare(fleet: Fleet, kubeconfig: string): Promise<MeasureRow[]> {
  const user = patientUser(fleet)
  await Promise.all(fleet.programs.map((program) => program.ready()))
  await user.addBenchmark()
  // Calibrates the tasks, so that only trials are counted below.
  await runTrials(user, 1)
  const idleStart = await readCounters(fleet, kubeconfig)
  await wait(IDLE_SECONDS * 1000)
  const start = await readCounters(fleet, kubeconfig)
  const countedStart = await readCountedResults(fleet)
  const startedAt = performance.now()
  const { results, parallel } = await runTrials(user, ATTEMPTS)
  const seconds = (performance.now() - startedAt) / 1000
  const end = await readCounters(fleet, kubeconfig)
  const countedEnd = await readCountedResults(fleet)
  return [
    atMost(`lost results of ${TRIALS} trials`, countLost(results), 0, String),
    atMost(`results of ${TRIALS} trials that were counted again`, countedEnd - countedStart - TRIALS, 0, String),
    note('trials at the same time, at most', String(parallel)),
    note('trials per minute', ((TRIALS * 60) / seconds).toFixed(0)),
    ...Object.keys(end).map((name) => {
      const idlePerSecond = ((start[name] ?? 0) - (idleStart[name] ?? 0)) / IDLE_SECONDS
      const perTrial = ((end[name] ?? 0) - (start[name] ?? 0) - idlePerSecond * seconds) / TRIALS
      return note(`${name}, per trial; per idle second`, `${perTrial.toFixed(1)}; ${idlePerSecond.toFixed(1)}`)
    }),
  ]
}

type TrialsRun = { results: ComparisonTrial[]; parallel: number }

/** Runs a comparison of the reference solution with the no-op, and watches how many trials run at the same time. */
async function runTrials(user: PatientUser, attempts: number): Promise<TrialsRun> {
  const id = randomUUID()
  let parallel = 0
  await user.create({ id, attempts, sandbox: 'kubernetes' })
  const { trials } = await until(user, id, ({ state, trials: { running } }) => {
    parallel = Math.max(parallel, running)
    return state === 'completed'
  })
  if (trials.errored > 0) throw new Error(`${trials.errored} trials failed.`)
  return { results: await user.trials(id), parallel }
}

/** Counts trials without a result. */
const countLost = (results: readonly ComparisonTrial[]): number =>
  TRIALS -
  new Set(results.filter(hasResult).map((trial) => `${trial.task.name} ${trial.settingId} ${trial.attempt}`)).size

const hasResult = ({ state }: ComparisonTrial): boolean => state === 'passed' || state === 'failed'

/** Returns the number of results that were added to the counts of all comparisons. */
async function readCountedResults({ query }: Fleet): Promise<number> {
  const [row] = (await query('select coalesce(sum(metered), 0)::int as results from trial_counts')) as [
    { results: number },
  ]
  return row.results
}

type Counters = Record<string, number>

const DATABASE = `select xact_commit as commits, tup_inserted + tup_updated + tup_deleted as rows,
  pg_current_wal_lsn() - '0/0' as wal, pg_database_size(current_database()) as size
  from pg_stat_database where datname = current_database()`

async function readCounters({ query, dataFolder }: Fleet, kubeconfig: string): Promise<Counters> {
  // Statistics of a session reach the view about a second later.
  await wait(2000)
  const [database] = (await query(DATABASE)) as [Record<string, string>]
  const { stdout: disk } = await run('du', ['--summarize', '--bytes', join(dataFolder, 'blobs')])
  return {
    ...(await countRequests(kubeconfig)),
    'transactions of PostgreSQL': Number(database.commits),
    'rows that PostgreSQL wrote': Number(database.rows),
    'KiB of write-ahead log': Number(database.wal) / 1024,
    'KiB of the database': Number(database.size) / 1024,
    'KiB of blobs': Number(disk.split('\t')[0]) / 1024,
  }
}

/** Counts requests of all clients to the API server, in groups that a cluster's operator knows. */
async function countRequests(kubeconfig: string): Promise<Counters> {
  const env = { PATH: process.env.PATH, HOME: homedir(), KUBECONFIG: kubeconfig }
  const { stdout } = await run('kubectl', ['get', '--raw', '/metrics'], { env, maxBuffer: 256e6 })
  const counters: Counters = { 'API requests: all': 0, 'API requests: streams': 0, 'API requests: changes': 0 }
  for (const [, labels = '', value] of stdout.matchAll(/^apiserver_request_total\{([^}]*)\} (\S+)$/gm)) {
    const verb = /verb="(\w+)"/.exec(labels)?.[1] ?? ''
    const add = (group: string): void => {
      counters[group] = (counters[group] ?? 0) + Number(value)
    }
    add('API requests: all')
    if (verb === 'CONNECT') add('API requests: streams')
    if (['POST', 'PUT', 'PATCH', 'DELETE'].includes(verb)) add('API requests: changes')
  }
  return counters
}

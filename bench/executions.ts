import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import { createBatch, readBatch, readGenerationOptions } from '../src/batches/schema.ts'
import { createCredential } from '../src/credentials/schema.ts'
import { pytest } from '../src/grading/languages/python.ts'
import { call } from '../src/platform/http/client.ts'
import { connectRepository } from '../src/repos/schema.ts'
import type { ExecutionInput } from '../src/taskgen/execution/execute.ts'
import { planRuns } from '../src/taskgen/execution/plan-runs.ts'
import { newKey } from '../src/workspaces/key.ts'
import { buildHistory } from '../test/support/generating.ts'
import { pythonRootfs } from '../test/support/grading/images.ts'
import { openSuiteRunner, type SuiteRunner } from '../test/support/grading/suite-runner.ts'
import { writeHistory } from '../test/support/histories.ts'
import { type Program, startProgram } from '../test/support/program.ts'
import { openMeter, postmasterOf } from './cpu.ts'
import {
  atLeast,
  atMost,
  type BenchMeasurement,
  type MeasureRow,
  milliseconds,
  note,
  seconds,
  times,
} from './measure.ts'
import { withPostgres } from './postgres.ts'

const PROCESS = new URL('execution-process.ts', import.meta.url).pathname
const WAIT_MS = 5000
const WAIT_SLOTS = 4
const WAITING = 40
const BUSY_ROUNDS = 2
const BUSY_EACH = 3

/** Measures a second worker: less time if executions wait, no additional CPU time if they compute. */
export const executionsBench: BenchMeasurement = {
  name: 'Executions',
  about: `Batches of a git repository from the request to completion, on a durable embedded PostgreSQL, by one worker process and by two. First ${WAITING} executions that wait ${WAIT_MS / 1000} s, ${WAIT_SLOTS} slots for each worker; the other stages do nothing. Then executions that run pytest seven times in bubblewrap sandboxes, one slot for each worker and ${BUSY_EACH} executions for each, ${BUSY_ROUNDS} alternating rounds; CPU time of workers, sandboxes and database.`,
  async run() {
    await using suites = await openSuiteRunner('bwrap', await pythonRootfs())
    const order = await busyOrder(suites)
    return await withPostgres(async (url) => {
      await using lab = await openLab(url, suites.folder)
      return [...(await waitingRows(lab)), ...(await busyRows(lab, order))]
    })
  },
}

async function waitingRows(lab: ExecutionLab): Promise<MeasureRow[]> {
  const order = { execution: String(WAIT_MS), slots: WAIT_SLOTS, count: WAITING }
  const [one, two] = [await batch(lab, { ...order, workers: 1 }), await batch(lab, { ...order, workers: 2 })]
  return [
    atLeast('waiting executions: speed-up of two workers over one', one.seconds / two.seconds, 1.8, times),
    note('one worker, two workers', `${seconds(one.seconds)}, ${seconds(two.seconds)}`),
    note('CPU of all stages of one task', `${milliseconds(cpuOfEach([one]))}, ${milliseconds(cpuOfEach([two]))}`),
  ]
}

const mean = (numbers: number[]): number => numbers.reduce((sum, each) => sum + each, 0) / numbers.length

const cpuOfEach = (rounds: ExecutionTimes[]): number => mean(rounds.map(({ cpuMs, count }) => cpuMs / count))

type ExecutionTimes = { seconds: number; cpuMs: number; count: number }

async function busyRows(lab: ExecutionLab, execution: string): Promise<MeasureRow[]> {
  const one: ExecutionTimes[] = []
  const two: ExecutionTimes[] = []
  for (let round = 0; round < BUSY_ROUNDS; round++) {
    one.push(await batch(lab, { execution, slots: 1, count: BUSY_EACH, workers: 1 }))
    two.push(await batch(lab, { execution, slots: 1, count: 2 * BUSY_EACH, workers: 2 }))
  }
  const secondsOf = (rounds: ExecutionTimes[]): number => mean(rounds.map((round) => round.seconds))
  return [
    atMost(
      'computing executions: CPU time per execution, two workers / one',
      cpuOfEach(two) / cpuOfEach(one),
      1.1,
      times,
    ),
    note('with one worker, with two', `${milliseconds(cpuOfEach(one))}, ${milliseconds(cpuOfEach(two))}`),
    note('duration of twice as many executions with two workers, ratio', times(secondsOf(two) / secondsOf(one))),
  ]
}

const BURN = 'sum(n * n for n in range(2_000_000))'
const ranks = (order: string): string => `def rank(values):\n    ${BURN}\n    return sorted(values${order})\n`
const tests = (first: string): string =>
  `from ranks import rank\n\n\ndef test_one():\n    assert rank([1]) == [1]\n\n\ndef test_two():\n    assert rank([1, 2]) == ${first}\n`

/** Writes a file for the workers: a pull request with one fail-to-pass test, and the image of its base. */
async function busyOrder(suites: SuiteRunner): Promise<string> {
  const base = { 'ranks.py': ranks(''), 'test_ranks.py': tests('[1, 2]') }
  const repository = await suites.repository(base, { runner: pytest.id })
  const hidden = { files: [{ path: 'test_ranks.py', content: tests('[2, 1]'), executable: false }], deleted: [] }
  const order: Omit<ExecutionInput, 'folder'> = {
    image: repository.image,
    source: repository.patch({ 'ranks.py': ranks(', reverse=True') }),
    hidden,
    plan: planRuns({ runner: pytest, hidden, suiteCpuSeconds: 1 }),
  }
  const file = join(suites.folder, 'order.json')
  writeFileSync(file, JSON.stringify(order))
  return file
}

type ExecutionRun = { workers: number; slots: number; count: number; execution: string }

/** Measures a batch from request to end with running workers. Each batch has its own repository, so that nothing is cached. */
async function batch(lab: ExecutionLab, { workers, slots, count, execution }: ExecutionRun): Promise<ExecutionTimes> {
  const start = () => lab.start('work', execution, { ASSAY_WORKER_SLOTS: String(slots) })
  const started = await Promise.all(Array.from({ length: workers }, start))
  const params = await lab.connect(count)
  const { defaults: generation } = (await call(lab.client, readGenerationOptions, { params })).body
  if (!generation) throw new Error('Nobody offers a sandbox.')
  for (const program of started) lab.meter.add(program.process.pid ?? 0)
  const [begun, before] = [performance.now(), lab.meter.milliseconds()]
  const candidateCounts = { easy: count, medium: 0, hard: 0 }
  const { body } = await call(lab.client, createBatch, { params, body: { candidateCounts, generation } })
  const run = await untilDone(lab, { ...params, runId: body.runId })
  if (run.counts.ready !== count) throw new Error(`${run.counts.ready} of ${count} tasks are ready.`)
  const took = { seconds: (performance.now() - begun) / 1000, cpuMs: lab.meter.milliseconds() - before, count }
  await Promise.all(started.map((program) => program.kill('SIGKILL')))
  return took
}

type BenchRepository = { org: string; owner: string; name: string }

async function untilDone({ client }: ExecutionLab, params: BenchRepository & { runId: string }) {
  for (;;) {
    const { body } = await call(client, readBatch, { params })
    if (body.state === 'completed' || body.state === 'failed') return body
    await wait(50)
  }
}

type ExecutionLab = Awaited<ReturnType<typeof openLab>>

async function openLab(url: string, folder: string) {
  const key = newKey()
  const environment = {
    DATABASE_URL: url,
    ASSAY_DATA: folder,
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_GIT_ALLOW: folder,
    // The workers simulate separate machines.
    ASSAY_WORKER_MEMORY_MB: '1000000',
    ASSAY_WORKER_STARTS: '1000',
  }
  const programs: Program[] = []
  const start = async (role: string, execution: string, more: Record<string, string> = {}): Promise<Program> => {
    const program = await startProgram(PROCESS, [role, execution], { ...environment, ...more })
    programs.push(program)
    return program
  }
  const api = await start('api', '0')
  const client = { url: api.url, key }
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const secret = { apiKey: 'sk-ant-0123456789abcdef' }
  await call(client, createCredential, {
    params: { org: 'local' },
    body: { kind: 'model', provider: 'anthropic', name: 'Nobody asks it', secret },
  })
  const meter = openMeter()
  meter.add(await postmasterOf(pool))
  let repositories = 0
  return {
    client,
    start,
    meter,
    /** Creates a repository with this many candidates. */
    async connect(count: number): Promise<BenchRepository> {
      const name = `executed-${++repositories}`
      const git = join(folder, name)
      await writeHistory(git, buildHistory({ easy: count, medium: 0, hard: 0 }, name))
      const params = { org: 'local', owner: 'lab', name }
      await call(client, connectRepository, { params, body: { source: { kind: 'git', url: git } } })
      return params
    },
    async [Symbol.asyncDispose]() {
      await pool.end()
      await Promise.all(programs.map((program) => program.kill('SIGKILL')))
      meter[Symbol.dispose]()
    },
  }
}

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import autocannon from 'autocannon'
import pg from 'pg'
import { call } from '../src/platform/http/client.ts'
import { previewRelease, publishRelease } from '../src/releases/schema.ts'
import { connectRepository } from '../src/repos/schema.ts'
import { newKey } from '../src/workspaces/key.ts'
import { startProgram } from '../test/support/program.ts'
import { insertApprovedTasks, insertComparison } from '../test/support/releases.ts'
import { startService } from '../test/support/service.ts'
import {
  atLeast,
  atMost,
  type BenchMeasurement,
  type MeasureRow,
  median,
  milliseconds,
  note,
  perSecond,
  seconds,
  times,
} from './measure.ts'
import { withPostgres } from './postgres.ts'
import { openFill } from './results-fill.ts'

const REPOSITORIES = 10_000
const PUBLISHERS = 3
const RELEASES = 10
const SIZE = { repositories: REPOSITORIES, publishers: PUBLISHERS, releases: RELEASES, model: 'lab/model' }
const BARE = new URL('bare-bytes.ts', import.meta.url).pathname
const ROUNDS = 3
const SECONDS = 3
const PREVIEW = { tasks: 500, settings: 60, attempts: 3 }

export const resultsBench: BenchMeasurement = {
  name: 'Releases and public results',
  about: `${REPOSITORIES} repositories × ${PUBLISHERS} publishers × ${RELEASES} releases, an API process on a durable embedded PostgreSQL. Ratios are to a bare node:http server that sends the same bytes, medians of ${ROUNDS} alternating rounds of ${SECONDS} s, 50 connections; latencies with as many connections as are named. Cold: each read is of a page that is not cached yet. One release is published; SQL derives the other rows from it and reproduces the published rows byte for byte.`,
  run: () =>
    withPostgres(async (url) => {
      const lab = await openLab(url)
      try {
        const preview = await previewed(lab)
        await publishModel(lab)
        const fill = await openFill(url, SIZE)
        const heads = await fill.heads()
        const few = await coldList(lab)
        const others = await fill.others()
        await fill.close()
        const many = await coldList(lab)
        return [
          atMost(`inserting ${REPOSITORIES * PUBLISHERS * RELEASES} releases`, heads + others, 90, seconds),
          ...(await listReads(lab)),
          atMost('cold list, ten releases each to one each', many.timesNothing / few.timesNothing, 1.5, times),
          note('cold list of up to 200 cards, low decile', milliseconds(many.ms)),
          ...(await repositoryReads(lab)),
          ...preview,
        ]
      } finally {
        await lab.close()
      }
    }),
}

type ResultsLab = Awaited<ReturnType<typeof openLab>>

async function openLab(url: string) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-bench-'))
  const key = newKey()
  const service = await startService('api', ['--port', '0', '--data', folder], {
    DATABASE_URL: url,
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_LOG: 'info',
    ASSAY_DATABASE_CONNECTIONS: '10',
  })
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  return {
    service,
    pool,
    folder,
    client: { url: service.url, key },
    async close() {
      await pool.end()
      await service.kill('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const place = (name: string) => ({ org: 'local', owner: 'lab', name })

/** Creates a public repository with approved tasks whose content does not matter. */
async function repository({ client, pool }: ResultsLab, name: string, tasks: number) {
  const source = { kind: 'git', url: 'https://git.example.org/x.git' } as const
  await call(client, connectRepository, { params: place(name), body: { source, visibility: 'public' } })
  const { rows } = await pool.query('select key, workspace_id from repositories where name = $1', [name])
  const digests = await insertApprovedTasks(pool, rows[0].key, tasks)
  return { workspaceId: rows[0].workspace_id, repository: rows[0].key, owner: 'lab', name, digests }
}

const TICKS = 100

/** CPU time, which stays comparable on a busy machine. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ')
  return (Number(fields[11]) + Number(fields[12])) / TICKS
}

const letters = (count: number, share: number): string =>
  Array.from({ length: count }, (_, n) => ((n * 7919) % 1000 < share * 1000 ? 'p' : 'f')).join('')

async function previewed(lab: ResultsLab): Promise<MeasureRow[]> {
  const where = await repository(lab, 'large', PREVIEW.tasks)
  const usage = { input: 1000, cacheRead: 5000, cacheWrite: 10, output: 300, reasoning: 20 }
  await insertComparison(
    lab.pool,
    where,
    Array.from({ length: PREVIEW.settings }, (_, n) => ({
      id: `acme/model-${n}|mini|low`,
      micros: 1000 + 317 * n,
      usage,
      cells: Array.from({ length: PREVIEW.attempts }, (_attempt, a) =>
        letters(PREVIEW.tasks, 0.3 + n / 100 + a / 50),
      ).join(','),
    })),
  )
  await lab.pool.query('analyze')
  const took: number[] = []
  const busy: number[] = []
  for (let round = 0; round < 5; round++) {
    const [started, before] = [performance.now(), cpuSeconds(lab.service.process.pid ?? 0)]
    await call(lab.client, previewRelease, { params: place('large') })
    took.push((performance.now() - started) / 1000)
    busy.push(cpuSeconds(lab.service.process.pid ?? 0) - before)
  }
  const size = `${PREVIEW.tasks} tasks × ${PREVIEW.settings} settings × ${PREVIEW.attempts} attempts`
  return [
    atMost(`preview of ${size}`, median(took), 1, seconds),
    note('CPU time of the API process for the preview', seconds(median(busy))),
  ]
}

/** Publishes one real release, the template of all others. */
async function publishModel(lab: ResultsLab): Promise<void> {
  const where = await repository(lab, 'model', 24)
  const made = Array.from({ length: 4 }, (_, n) => ({
    id: `acme/model-${n}|mini|high`,
    label: `Model ${n}`,
    micros: 1000 * 2 ** n,
    cells: letters(24, 0.3 + n / 12),
  }))
  await insertComparison(lab.pool, where, made)
  const { body: preview } = await call(lab.client, previewRelease, { params: place('model') })
  const { head, fingerprint } = preview
  const settings = preview.settings.map(({ key }) => key)
  await call(lab.client, publishRelease, { params: place('model'), body: { settings, head, fingerprint } })
}

/**
 * Measures uncached lists, each next to an empty read with one database query: the two states of the tables are measured a
 * minute apart, and other load on the machine must not decide.
 */
async function coldList({ service }: ResultsLab): Promise<{ ms: number; timesNothing: number }> {
  const lists: number[] = []
  const nothings: number[] = []
  const cursor = new Date().toISOString()
  for (let limit = 101; limit <= 200; limit++) {
    const id = `ffffffff-ffff-4fff-bfff-${String(performance.now()).replace('.', '').padStart(12, '0').slice(-12)}`
    const query = `limit=${limit}&cursor=${encodeURIComponent(`${cursor}~${id}`)}`
    lists.push(await readMs(`${service.url}/api/public/results?${query}`, 200))
    nothings.push(await readMs(`${service.url}/api/public/results/nobody/nothing`, 404))
  }
  return { ms: lowDecile(lists), timesNothing: lowDecile(lists) / lowDecile(nothings) }
}

async function readMs(url: string, wanted: number): Promise<number> {
  const started = performance.now()
  const response = await fetch(url)
  await response.arrayBuffer()
  if (response.status !== wanted) throw new Error(`${url} answered ${response.status}.`)
  return performance.now() - started
}

const lowDecile = (numbers: number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 10)] ?? Number.NaN

async function listReads(lab: ResultsLab): Promise<MeasureRow[]> {
  const url = `${lab.service.url}/api/public/results`
  const body = await keep(lab, url)
  await using bare = await startBare(lab, body)
  const { ours, theirs } = await inTurns(url, bare.url, {})
  const [calm, bareCalm] = [await load(url, { connections: 2 }), await load(bare.url, { connections: 2 })]
  return [
    atLeast(`list of 1,000 cards (${Math.round(body.bytes / 1024)} KiB), ratio to bare`, ours / theirs, 0.5, times),
    note('requests per second: ours, bare', `${perSecond(ours)}, ${perSecond(theirs)}`),
    atMost('list of 1,000 cards, p99 with 2 connections', calm.latency.p99, 20, milliseconds),
    note('bare, p99 with 2 connections', milliseconds(bareCalm.latency.p99)),
  ]
}

async function repositoryReads(lab: ResultsLab): Promise<MeasureRow[]> {
  const url = `${lab.service.url}/api/public/results/owner-7/repo-7`
  const body = await keep(lab, url)
  await using bare = await startBare(lab, body)
  const headers = { 'if-none-match': body.etag }
  const full = await inTurns(url, bare.url, {})
  const { ours, theirs } = await inTurns(url, bare.url, headers)
  const [calm, bareCalm] = [await load(url, { connections: 10 }), await load(bare.url, { connections: 10 })]
  return [
    atMost('repository read, p99 with 10 connections', calm.latency.p99, 10, milliseconds),
    note('bare, p99 with 10 connections', milliseconds(bareCalm.latency.p99)),
    note(`repository read (${Math.round(body.bytes / 1024)} KiB), ratio to bare`, times(full.ours / full.theirs)),
    atLeast('304, ratio to bare', ours / theirs, 0.6, times),
    note('requests per second of 304: ours, bare', `${perSecond(ours)}, ${perSecond(theirs)}`),
  ]
}

async function keep({ folder }: ResultsLab, url: string) {
  const response = await fetch(url, { headers: { 'accept-encoding': 'identity' } })
  const body = Buffer.from(await response.arrayBuffer())
  const path = join(folder, 'body')
  writeFileSync(path, body)
  return { path, bytes: body.byteLength, etag: response.headers.get('etag') ?? '' }
}

async function startBare(_: ResultsLab, { path, etag }: { path: string; etag: string }) {
  const program = await startProgram(BARE, [], { BENCH_BODY: path, BENCH_ETAG: etag })
  return { url: program.url, [Symbol.asyncDispose]: async () => void (await program.kill('SIGKILL')) }
}

/** Measures both in turns, so that other load on the machine affects them equally. */
async function inTurns(url: string, bare: string, headers: Record<string, string>) {
  const [ours, theirs]: [number[], number[]] = [[], []]
  await load(url, { headers, duration: 1 })
  for (let round = 0; round < ROUNDS; round++) {
    theirs.push((await load(bare, { headers })).requests.average)
    ours.push((await load(url, { headers })).requests.average)
  }
  return { ours: median(ours), theirs: median(theirs) }
}

async function load(url: string, options: Partial<autocannon.Options>): Promise<autocannon.Result> {
  const result = await autocannon({ url, connections: 50, duration: SECONDS, ...options })
  const wanted = options.headers && 'if-none-match' in options.headers ? result['3xx'] : result['2xx']
  if (result.errors > 0 || wanted === 0) throw new Error(`${url}: ${result.errors} errors, ${wanted} right answers`)
  return result
}

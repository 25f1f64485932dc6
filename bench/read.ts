import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import autocannon from 'autocannon'
import { Kysely, type LogEvent, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { DB } from '../src/platform/db/tables.gen.ts'
import { newKey } from '../src/workspaces/key.ts'
import { findCallerByKey } from '../src/workspaces/sql.ts'
import { startService } from '../test/support/service.ts'
import { atLeast, atMost, type BenchMeasurement, median, milliseconds, note, perSecond, times } from './measure.ts'
import { withPostgres } from './postgres.ts'

const ROUNDS = 5
const SECONDS = 4
const CONNECTIONS = 50

/** Measures both servers in turns, so that other load on the machine affects them equally. */
export const readBench: BenchMeasurement = {
  name: 'Small authenticated read',
  about: `GET /api/orgs/local against a bare node:http server that runs the same SQL through the same pool; ${CONNECTIONS} connections, ${ROUNDS} rounds of ${SECONDS} s, alternating; medians.`,
  run: () =>
    withPostgres(async (url) => {
      const key = newKey()
      const environment = {
        DATABASE_URL: url,
        ASSAY_BOOTSTRAP_KEY: key,
        ASSAY_DATABASE_CONNECTIONS: '10',
        ASSAY_LOG: 'info',
      }
      const service = await startService('api', ['--port', '0', '--data', '/tmp/assay-bench-read'], environment)
      const bare = await startBare({ ...environment, BENCH_SQL: await readSql(url) })

      const ours: autocannon.Result[] = []
      const theirs: autocannon.Result[] = []
      await load(`${service.url}/api/orgs/local`, key, 2)
      await load(bare.url, key, 2)
      for (let round = 0; round < ROUNDS; round++) {
        theirs.push(await load(bare.url, key, SECONDS))
        ours.push(await load(`${service.url}/api/orgs/local`, key, SECONDS))
      }
      await service.kill('SIGTERM')
      bare.stop()
      return rows(ours, theirs)
    }),
}

function rows(ours: autocannon.Result[], theirs: autocannon.Result[]) {
  const rate = (results: autocannon.Result[]) => median(results.map((result) => result.requests.average))
  const p99 = (results: autocannon.Result[]) => median(results.map((result) => result.latency.p99))
  return [
    atLeast('requests per second, ratio to bare', rate(ours) / rate(theirs), 0.6, times),
    atMost('p99 latency, ratio to bare', p99(ours) / p99(theirs), 2, times),
    note('requests per second: ours, bare', `${perSecond(rate(ours))}, ${perSecond(rate(theirs))}`),
    note('p99: ours, bare', `${milliseconds(p99(ours))}, ${milliseconds(p99(theirs))}`),
  ]
}

async function load(url: string, key: string, duration: number): Promise<autocannon.Result> {
  const result = await autocannon({
    url,
    connections: CONNECTIONS,
    duration,
    headers: { authorization: `Bearer ${key}` },
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} wrong answers, ${result.errors} errors`)
  return result
}

/** Captures the statement that the service runs. */
async function readSql(url: string): Promise<string> {
  const heard: string[] = []
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  const db = new Kysely<DB>({
    dialect: new PostgresDialect({ pool }),
    log: (event: LogEvent) => void heard.push(event.query.sql),
  })
  await findCallerByKey(db, Buffer.alloc(32))
  await db.destroy()
  return heard[0] ?? ''
}

async function startBare(environment: Record<string, string>) {
  const child = spawn(process.execPath, [new URL('bare-server.ts', import.meta.url).pathname], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const line of createInterface({ input: child.stdout })) {
    const url = /^assay ready (.*)$/.exec(line)?.[1]
    if (url) return { url, stop: () => void child.kill('SIGKILL') }
  }
  throw new Error('The bare server did not start.')
}

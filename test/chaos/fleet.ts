import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { ConfigEnvironment } from '../../src/config.ts'
import { startPostgres } from '../../src/platform/postgres/postgres.ts'
import { toDatabaseUrl } from '../../src/store.ts'
import { newKey } from '../../src/workspaces/key.ts'
import { freePort, startSystemPostgres } from '../support/system-postgres.ts'
import { writeDataset } from './dataset.ts'
import { type Supervised, supervise } from './supervised.ts'

export type KillTarget = { kind: string; kill(): Promise<void> }

/** Sandbox in which the trials run, with the settings that it needs and a sample task that it supports. */
type FleetSandbox = { name: string; sample: string; memoryMb?: number; environment: ConfigEnvironment }

const LOCAL: FleetSandbox = {
  name: 'local',
  sample: 'greet-in-bash',
  environment: { ASSAY_SANDBOXES: 'local', ASSAY_ALLOW_HOST_BASE: '1' },
}

/** Processes that share a database and a data folder, with functions to kill each of them. */
export type Fleet = {
  url: string
  key: string
  dataFolder: string
  /** Name of the sandbox in which the trials run. */
  sandbox: string
  victims: KillTarget[]
  programs: Supervised[]
  /** Queries the database directly. */
  query(text: string): Promise<unknown[]>
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts one API and two workers on the system's PostgreSQL. */
export async function startParts(bin: string, tasks: number, sandbox = LOCAL): Promise<Fleet> {
  await using undo = new AsyncDisposableStack()
  const postgres = await startSystemPostgres(bin)
  undo.defer(async () => postgres.stop())
  const { environment, ...place } = await makePlace(undo, tasks, sandbox)
  const env = { ...environment, DATABASE_URL: postgres.url, ASSAY_DATABASE_CONNECTIONS: '10' }
  const api = supervise('api', env)
  const workers = [supervise('work', env), supervise('work', env)]
  const programs = [api, ...workers]
  for (const program of programs) undo.defer(async () => void (await program.stop()))
  const database: KillTarget = {
    kind: 'database',
    async kill() {
      process.kill(postgres.postmaster(), 'SIGKILL')
      await postgres.startAgain()
    },
  }
  const all = undo.move()
  return {
    ...place,
    programs,
    victims: [{ kind: 'API', kill: api.kill }, ...workers.map(({ kill }) => ({ kind: 'worker', kill })), database],
    query: (text) => ask(postgres.url, text),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

/** Starts `serve` with its embedded PostgreSQL, which it restarts by itself. */
export async function startServe(tasks: number): Promise<Fleet> {
  await using undo = new AsyncDisposableStack()
  const { environment, ...place } = await makePlace(undo, tasks, LOCAL)
  const serve = supervise('serve', environment)
  undo.defer(async () => void (await serve.stop()))
  const folder = join(place.dataFolder, 'postgres')
  const database: KillTarget = {
    kind: 'database',
    async kill() {
      const pid = postmasterIn(folder)
      if (pid) process.kill(pid, 'SIGKILL')
    },
  }
  const all = undo.move()
  return {
    ...place,
    programs: [serve],
    victims: [{ kind: 'serve', kill: serve.kill }, database],
    async query(text) {
      const postgres = await startPostgres({ folder })
      try {
        return await ask(toDatabaseUrl(postgres.connection), text)
      } finally {
        await postgres.stop()
      }
    },
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  }
}

async function makePlace(undo: AsyncDisposableStack, tasks: number, sandbox: FleetSandbox) {
  const folder = mkdtempSync(join(tmpdir(), 'assay-chaos-'))
  undo.defer(async () => rmSync(folder, { recursive: true, force: true }))
  writeDataset(join(folder, 'registry'), tasks, sandbox.sample, sandbox.memoryMb)
  const key = newKey()
  const port = await freePort()
  const dataFolder = join(folder, 'data')
  const environment: ConfigEnvironment = {
    ASSAY_DATA: dataFolder,
    ASSAY_PORT: String(port),
    ASSAY_BOOTSTRAP_KEY: key,
    ASSAY_REGISTRIES: `dir:${join(folder, 'registry')}`,
    ASSAY_WORKER_SLOTS: '4',
    ...sandbox.environment,
  }
  return { url: `http://127.0.0.1:${port}`, key, dataFolder, sandbox: sandbox.name, environment }
}

/** Returns undefined while the process is not running. */
function postmasterIn(folder: string): number | undefined {
  try {
    return Number(readFileSync(join(folder, 'data/postmaster.pid'), 'utf8').split('\n')[0])
  } catch {
    return undefined
  }
}

async function ask(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

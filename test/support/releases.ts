import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { afterAll } from 'vitest'
import * as schema from '../../src/releases/schema.ts'
import { connectRepository } from '../../src/repos/schema.ts'
import { type TestApp, testApp } from './app.ts'
import { type ArchiveFiles, smallTask } from './archives.ts'
import { openImportLab } from './batches.ts'
import { startCodeHost } from './code-host.ts'

/** Results of one setting in a comparison: a letter for each task and attempt (p passed, f failed, e errored, - none). */
export type SettingFixture = {
  id: string
  /** Attempts, separated by commas: `ppf,pff`. */
  cells: string
  /** Cost of each trial. */
  micros?: number | null
  label?: string
  provider?: string
  version?: string
  usage?: object
  /** Duration of the agent in each trial. */
  seconds?: number
}

const STATES: Record<string, string> = { p: 'passed', f: 'failed', e: 'errored' }

type ComparisonTarget = { workspaceId: string; repository: number; owner: string; name: string; digests: string[] }

let clock = Date.parse('2026-01-01T00:00:00Z')

/** Inserts a comparison with finished trials into the tables. */
export async function insertComparison(
  pool: pg.Pool,
  where: ComparisonTarget,
  settings: SettingFixture[],
): Promise<number> {
  clock += 1000
  const { rows } = await pool.query(
    `insert into comparisons (workspace_id, id, scope_kind, scope_owner, scope_name, repository, request_hash, state, step,
       sandbox, sandbox_credential_id, skip_completed, attempts, settings, tasks, created_at)
     values ($1, $2, 'repository', $3, $4, $5, '', 'completed', 'done', 'local', $2, false, 1, $6, $7, $8) returning key`,
    [
      ...[where.workspaceId, randomUUID(), where.owner, where.name, where.repository],
      ...[settings.length, where.digests.length, new Date(clock)],
    ],
  )
  const key = rows[0].key
  await pool.query(
    `insert into comparison_tasks (comparison, position, name, digest)
     select $1, place - 1, 'task-' || place, digest from unnest($2::text[]) with ordinality as t (digest, place)`,
    [key, where.digests],
  )
  for (const [position, setting] of settings.entries()) await insertSetting(pool, key, position, setting)
  return key
}

async function insertSetting(pool: pg.Pool, key: number, position: number, made: SettingFixture): Promise<void> {
  const [catalogId = '', harness = '', level = ''] = made.id.split('|')
  await pool.query(
    `insert into comparison_settings (comparison, position, id, catalog_id, name, label, provider, custom, harness,
       harness_version, reasoning_level, credential_id) values ($1, $2, $3, $4, $4, $5, $6, false, $7, $8, $9, $10)`,
    [
      ...[key, position, made.id, catalogId, made.label ?? catalogId, made.provider ?? 'lab', harness],
      ...[made.version ?? '1', level, randomUUID()],
    ],
  )
  const trials = made.cells
    .split(',')
    .flatMap((cells, attempt) => [...cells].map((letter, task) => ({ letter, task, attempt: attempt + 1 })))
    .filter(({ letter }) => letter !== '-')
  const detail = {
    isolation: 'none',
    costSource: 'gateway',
    ...(made.usage ? { usage: made.usage } : {}),
    ...(made.seconds ? { timings: { prepare: 1, agent: made.seconds, verify: 1, total: made.seconds + 2 } } : {}),
  }
  await pool.query(
    `insert into trials (comparison, ordinal, task, setting, attempt, state, verify_mode, cost_micros, detail)
     select $1, $2 * 1000000 + place, task, $2, attempt, state, case state when 'errored' then null else 'workspace' end, $3, $4
     from unnest($5::int[], $6::int[], $7::text[]) with ordinality as t (task, attempt, state, place)`,
    [
      ...[key, position, made.micros === undefined ? 1000 : made.micros, detail],
      ...[trials.map(({ task }) => task), trials.map(({ attempt }) => attempt)],
      trials.map(({ letter }) => STATES[letter]),
    ],
  )
}

const NAMES = ['one', 'two', 'three', 'four', 'five', 'six']

/** Opens a public repository with approved tasks, for inserted comparisons. */
export async function openReleaseLab(app: TestApp, files: (task: string) => ArchiveFiles = () => ({})) {
  const lab = await openImportLab(app)
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  await app.call(connectRepository, { params: lab.place, body: { source, visibility: 'public' } })
  const folders = NAMES.map((id) => [id, smallTask({ 'instruction.md': `Say ${id}.\n`, ...files(id) })])
  const { runId, tasks } = await lab.imported(Object.fromEntries(folders))
  for (const { taskId, digest } of tasks) await lab.decide(runId, taskId, { digest })
  const { rows } = await app.database.pool.query(
    'select key, workspace_id from repositories where owner = $1 and name = $2',
    [lab.place.owner, lab.place.name],
  )
  const digests = NAMES.map((id): string => tasks.find(({ taskId }: { taskId: string }) => taskId === id).digest)
  const where = { workspaceId: rows[0].workspace_id, repository: rows[0].key, ...lab.place, digests }
  return {
    ...lab,
    ...createReleaseClient(app, lab.place),
    runId,
    digests,
    where,
    ran: (...made: SettingFixture[]) => insertComparison(app.database.pool, where, made),
  }
}

/** Creates functions to preview, publish and withdraw releases of a repository as one workspace. */
export function createReleaseClient(
  app: TestApp,
  place: { owner: string; name: string },
  own: { org?: string; key?: string } = {},
) {
  const params = { ...place, ...(own.org ? { org: own.org } : {}) }
  const key = own.key ? { key: own.key } : {}
  const preview = async () => (await app.call(schema.previewRelease, { params, ...key })).body
  const publish = (body: object) => app.call(schema.publishRelease, { params, ...key, body: body as never })
  return {
    preview,
    publish,
    /** Publishes all settings that can be published, or these. */
    async publishAll(over: object = {}) {
      const { settings, head, fingerprint } = await preview()
      const keys = settings.filter((each: { publishable: boolean }) => each.publishable)
      return publish({ settings: keys.map((each: { key: string }) => each.key), head, fingerprint, ...over })
    },
    withdraw: (releaseId: string, reason = 'It was wrong.') =>
      app.call(schema.withdrawRelease, { params: { ...params, releaseId }, ...key, body: { reason } }),
    list: async () => (await app.call(schema.listReleases, { params, ...key })).body.releases,
  }
}

/** Inserts a batch with one approved task per digest. Each task has one file, if a path is given. */
async function insertBatch(
  pool: pg.Pool,
  repository: number,
  digests: readonly string[],
  path?: string,
): Promise<void> {
  const content = path && { instruction: 'Do it.', files: [{ path, bytes: 1, executable: false, sha256: '' }] }
  await pool.query(
    `with batch as (insert into batches (id, repository, step) values (gen_random_uuid(), $1, 'validate') returning id)
     insert into batch_tasks (batch, id, state, title, digest, evidence, decision, content)
     select batch.id, 'task-' || place, 'ready', 'A task', digest, '{}', 'approved', $3
     from batch cross join unnest($2::text[]) with ordinality as t (digest, place)`,
    [repository, digests, content],
  )
}

/** Inserts approved tasks whose files do not matter, and returns their digests. A path shows their language. */
export async function insertApprovedTasks(
  pool: pg.Pool,
  repository: number,
  tasks: number,
  path?: string,
): Promise<string[]> {
  const digests = Array.from({ length: tasks }, (_, n) => `sha256:${String(n).padStart(64, '0')}`)
  await pool.query(
    `insert into task_contents (digest, archive, bytes) select digest, digest, 1 from unnest($1::text[]) as t (digest)
     on conflict do nothing`,
    [digests],
  )
  await insertBatch(pool, repository, digests, path)
  return digests
}

/** Opens another workspace with the same hosted repository, the same approved tasks and its own results. */
export async function openSecondReleaseLab(
  app: TestApp,
  lab: { login: string; place: { owner: string; name: string }; digests: string[]; path?: string },
  made: SettingFixture[],
) {
  const { login, place, digests } = lab
  const { id: workspaceId, key } = await app.otherWorkspace(login)
  await app.call(connectRepository, { params: { org: login, ...place }, key, body: { source: { kind: 'github' } } })
  const { pool } = app.database
  const found = await pool.query('select key from repositories where workspace_id = $1', [workspaceId])
  const repository: number = found.rows[0].key
  await insertBatch(pool, repository, digests, lab.path)
  const where = { workspaceId, repository, ...place, digests }
  await insertComparison(pool, where, made)
  const again = (...more: SettingFixture[]) => insertComparison(pool, where, more)
  return { ...createReleaseClient(app, place, { org: login, key }), key, login, where, ran: again }
}

/** Starts an app that may publish the owner `lab`, with its own code host. Both stop at the end of the test file. */
export async function startReleaseApp() {
  const host = await startCodeHost()
  const app = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url, ASSAY_PUBLIC_OWNERS: 'lab=local' })
  afterAll(async () => {
    await app[Symbol.asyncDispose]()
    await host[Symbol.asyncDispose]()
  })
  return { app, host }
}

/** Publishes a release with a cheap setting (2 of 6) and an expensive one (5 of 6). */
export async function publishTwoSettings(app: TestApp, over: object = {}) {
  const lab = await openReleaseLab(app)
  await lab.ran(
    { id: 'acme/small|mini|low', cells: 'ppffff', micros: 1000, label: 'Small' },
    { id: 'acme/large|mini|high', cells: 'pppppf', micros: 5000, label: 'Large' },
  )
  const { body } = await lab.publishAll(over)
  return { ...lab, release: body }
}

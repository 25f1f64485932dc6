import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { startCodeHost } from '../../test/support/code-host.ts'
import { openReleaseLab, openSecondReleaseLab } from '../../test/support/releases.ts'
import { createCredential } from '../credentials/schema.ts'
import { createKey } from '../workspaces/schema.ts'
import * as schema from './schema.ts'

const CANARY = 'CANARY'

/** What everybody may read, and what the service could not go on without. Every other text in the database is poisoned. */
const LEFT_ALONE: Record<string, string[]> = {
  repositories: ['owner', 'name', 'source_kind', 'host', 'visibility'],
  workspaces: ['login', 'kind'],
  comparison_settings: [
    'id',
    'catalog_id',
    'name',
    'label',
    'provider',
    'harness',
    'harness_version',
    'reasoning_level',
  ],
  comparisons: ['state', 'step', 'scope_kind', 'sandbox'],
  comparison_tasks: ['digest'],
  trials: ['state', 'verify_mode', 'detail', 'class'],
  batches: ['state', 'step', 'archive'],
  batch_tasks: [
    'state',
    'digest',
    'decision',
    'difficulty',
    'rejection',
    'content',
    'evidence',
    'pull_request',
    'concerns',
  ],
  task_contents: ['digest', 'archive'],
  api_keys: ['permission'],
  endorsements: ['name'],
  credentials: ['kind', 'provider'],
  gateway_grants: ['subject', 'terms'],
}
/** Written by what is being tested, out of the rest; or no facts of anybody. */
const MADE = ['releases', 'result_lines', 'public_tasks', 'jobs', 'workers', 'master_keys', 'schema_migrations']

let app: TestApp
let host: Awaited<ReturnType<typeof startCodeHost>>

beforeAll(async () => {
  host = await startCodeHost()
  app = await testApp({ ASSAY_GATEWAY_UPSTREAM_GITHUB: host.url })
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await host[Symbol.asyncDispose]()
})

/** Answers how many columns are poisoned. */
async function poison(): Promise<string[]> {
  const { pool } = app.database
  const { rows } = await pool.query(
    `select table_name, column_name, data_type from information_schema.columns join information_schema.tables using (table_schema, table_name)
     where table_schema = 'public' and table_type = 'BASE TABLE' and data_type in ('text', 'jsonb')`,
  )
  const poisoned: string[] = []
  for (const { table_name: table, column_name: column, data_type: type } of rows) {
    if (MADE.includes(table) || LEFT_ALONE[table]?.includes(column) || table.startsWith('kysely')) continue
    const value =
      type === 'jsonb' ? `jsonb_build_object('x', '${CANARY}')` : `'${CANARY} ' || coalesce("${column}", '')`
    await pool.query(`update "${table}" set "${column}" = ${value}`).then(
      () => poisoned.push(`${table}.${column}`),
      // A rule of the table forbids it, so that nothing secret can stand there.
      () => undefined,
    )
  }
  await pool.query(`update trials set detail = detail || '{"error": "${CANARY}", "rewards": {"${CANARY}": 1}}'`)
  await pool.query(`update gateway_grants set terms = terms || '{"baseUrl": "${CANARY}"}'`)
  const pullRequest = { number: 1, title: CANARY, url: CANARY, mergedAt: '2026-01-01T00:00:00.000Z' }
  await pool.query('update batch_tasks set pull_request = $1, concerns = $2', [
    JSON.stringify(pullRequest),
    JSON.stringify([CANARY]),
  ])
  await pool.query(`update batch_tasks set evidence = evidence || '{"note": "${CANARY}"}'`)
  return poisoned
}

const NOTHING = '00000000-0000-4000-8000-000000000000'

test('public answers contain nothing private', async () => {
  host.add('Octo/Cat')
  const place = { owner: 'Octo', name: 'Cat' }
  await app.call(createCredential, {
    body: { kind: 'model', provider: 'openai', name: CANARY, secret: { apiKey: `sk-${CANARY}` } },
  })
  await app.call(createKey, { body: { name: CANARY, permission: 'read' } })
  const other = await openReleaseLab(app, () => ({ 'instruction.md': `${CANARY}\n`, 'tests/notes.md': CANARY }))
  const made = [
    { id: 'acme/a|mini|low', cells: 'pppfff,ppffff' },
    { id: 'acme/b|mini|low', cells: 'eeefff' },
  ]
  const lab = await openSecondReleaseLab(app, { login: 'publisher', place, digests: other.digests }, made)
  const first = await lab.publishAll()
  expect(first.status).toBe(201)
  const poisoned = await poison()
  expect(poisoned).toEqual(
    expect.arrayContaining([
      'workspaces.name',
      'batch_tasks.title',
      'batch_tasks.id',
      'comparison_tasks.name',
      'api_keys.name',
      'audit_events.subject',
    ]),
  )
  await lab.ran({ id: 'acme/b|mini|low', cells: 'pppp--' })
  await poison()
  const second = await lab.publishAll()
  expect(second.status, second.text).toBe(201)
  await lab.withdraw(first.body.releaseId, 'It was wrong.')

  const params = [
    { ...place, releaseId: second.body.releaseId, taskId: 'task-1' },
    { ...place, releaseId: first.body.releaseId, taskId: `${CANARY.toLowerCase()}-1` },
    { owner: 'lab', name: other.place.name, releaseId: NOTHING, taskId: 'one' },
  ]
  const endpoints = Object.values(schema).filter((value) => 'path' in value)
  expect(endpoints.length).toBeGreaterThanOrEqual(10)
  const texts: string[] = []
  for (const endpoint of endpoints)
    for (const own of params)
      for (const query of [
        {},
        { q: 'acme' },
        { publisher: 'publisher' },
        { limit: '1' },
        { limit: 'x', publisher: 'x'.repeat(101) },
      ]) {
        const { text, headers, status } = await app.call(endpoint as typeof schema.readBadge, {
          key: null,
          params: own,
          query: query as never,
        })
        texts.push(`${endpoint.id} ${status} ${JSON.stringify([...headers])} ${text}`)
      }
  expect(texts.filter((text) => text.includes(CANARY) || text.includes(other.digests[0] ?? ''))).toEqual([])
  expect(texts.filter((text) => / 200 /.test(text)).length).toBeGreaterThan(20)
  // The poison is there: those who may read it find it.
  const own = await app.fetch(`/api/orgs/local/repos/lab/${other.place.name}/batches/${other.runId}/tasks`, {
    headers: { authorization: `Bearer ${app.adminKey}` },
  })
  expect(own.text).toContain(CANARY)
})

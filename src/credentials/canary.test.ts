import { expect, test } from 'vitest'
import { type TestApp, type TestResponse, testApp } from '../../test/support/app.ts'
import { startProviders } from '../../test/support/credentials/provider-servers.ts'
import { createOutbound } from '../platform/outbound/outbound.ts'
import { openKeyring } from './master-key.ts'
import { rotateMasterKey } from './rotate-master-key.ts'
import * as schema from './schema.ts'
import { openSecret } from './secrets.ts'

const CANARY = 'canary-7f3b2a9c41d8e605'

test('a secret appears in no response, log line or database column', async () => {
  await using upstream = await startProviders()
  await using app = await testApp({ ...upstream.environment, OPENAI_API_KEY: `${CANARY}-environment` })
  const answers: TestResponse[] = []
  const call: TestApp['call'] = async (endpoint, options) => {
    const answer = await app.call(endpoint, options)
    answers.push(answer)
    return answer
  }

  const body = { kind: 'model', provider: 'anthropic', name: 'x', secret: { apiKey: `${CANARY}-created` } } as const
  const headers = { 'idempotency-key': 'canary' }
  const { id } = (await call(schema.createCredential, { body, headers })).body
  await call(schema.createCredential, { body, headers })
  await call(schema.createCredential, { body: { ...body, name: 'y' }, headers })
  await call(schema.createCredential, { body: { ...body, secret: { apiKey: `${CANARY} refused` } } })
  await call(schema.createCredential, { body: { ...body, secret: { apiKey: 'x', other: CANARY } } })
  await call(schema.createCredential, { body: { ...body, provider: 'unknown' } })

  const params = { credentialId: id }
  await call(schema.checkCredential, { params })
  await call(schema.updateCredential, { params, body: { secret: { apiKey: `${CANARY}-updated` } } })
  await call(schema.updateCredential, { params, body: { name: 'z', secret: { apiKey: `${CANARY}\nrefused` } } })
  await call(schema.checkCredential, { params })
  upstream.answer(500)
  await call(schema.checkCredential, { params })

  const { db } = app.database
  const { dataFolder } = app.tools.config
  const keyring = await openKeyring({ db, dataFolder })
  const { workspace_id: workspaceId } = await db
    .selectFrom('credentials')
    .select('workspace_id')
    .executeTakeFirstOrThrow()
  const tools = { db, keyring, environment: {}, upstreams: {}, outbound: createOutbound() }
  expect(await openSecret(tools, workspaceId, id)).toMatchObject({ secret: { apiKey: `${CANARY}-updated` } })
  await rotateMasterKey({ db, dataFolder })
  await db.updateTable('credentials').set({ version: 99 }).execute()
  await call(schema.checkCredential, { params })

  const { credentials } = (await call(schema.listCredentials)).body
  for (const credential of credentials) await call(schema.checkCredential, { params: { credentialId: credential.id } })
  const rows = await everything(app)
  expect(rows.filter((row) => row.includes(`${id},`)).length).toBeGreaterThan(1)
  await call(schema.deleteCredential, { params })

  expect(upstream.requests.filter(({ headers }) => JSON.stringify(headers).includes(CANARY)).length).toBeGreaterThan(3)
  expect(
    tracesOf(
      CANARY,
      answers.map(({ text, headers }) => text + JSON.stringify([...headers])),
    ),
  ).toEqual([])
  expect(tracesOf(CANARY, [app.logged()])).toEqual([])
  expect(tracesOf(CANARY, [...rows, ...(await everything(app))])).toEqual([])
})

test('the search of this test finds a planted secret', async () => {
  await using app = await testApp()
  await app.database.pool.query(`update workspaces set name = $1`, [`a ${CANARY} b`])
  await app.database.pool.query(`insert into sessions (hash, key_id, expires_at) select $1, id, now() from api_keys`, [
    Buffer.from(CANARY),
  ])
  expect(tracesOf(CANARY, await everything(app))).toHaveLength(2)
  expect(tracesOf(CANARY, [Buffer.from(`xx${CANARY}`).toString('base64')])).toHaveLength(1)
})

/** Texts that hold the word: in clear, in hex, or in base64 from any of its three starting points. */
function tracesOf(word: string, texts: string[]): string[] {
  const encoded = ['', 'x', 'xx'].map((before) => {
    const text = Buffer.from(before + word).toString('base64url')
    return text.slice(before === '' ? 0 : before.length + 1, -4)
  })
  const forms = [word, Buffer.from(word).toString('hex'), ...encoded]
  return texts.filter((text) => {
    const alike = text.replaceAll('+', '-').replaceAll('/', '_')
    return forms.some((form) => text.includes(form) || alike.includes(form))
  })
}

/** Every row of every table, as text. */
async function everything(app: TestApp): Promise<string[]> {
  const { pool } = app.database
  const tables = await pool.query(`select quote_ident(tablename) as name from pg_tables where schemaname = 'public'`)
  expect(tables.rowCount).toBeGreaterThan(8)
  const found = await Promise.all(
    tables.rows.map(({ name }: { name: string }) => pool.query(`select row::text as text from ${name} as row`)),
  )
  return found.flatMap(({ rows }) => rows.map(({ text }: { text: string }) => text))
}

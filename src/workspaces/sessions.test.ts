import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { newKey } from './key.ts'
import * as schema from './schema.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

async function signIn(key = app.adminKey) {
  const answer = await app.call(schema.createSession, { key: null, body: { key } })
  const cookie = answer.headers.get('set-cookie')?.split(';')[0] ?? ''
  return { answer, cookie, csrfToken: answer.body.csrfToken as string }
}

test('a browser signs in, reads, changes with its CSRF token, and signs out', async () => {
  const { answer, cookie, csrfToken } = await signIn()
  expect(answer).toMatchObject({ status: 201, body: { org: 'local', permission: 'admin' } })
  expect(answer.headers.get('set-cookie')).toMatch(
    /^assay_session=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; Expires=.*GMT$/,
  )

  expect(await app.call(schema.readSession, { key: null, headers: { cookie } })).toMatchObject({
    status: 200,
    body: { csrfToken },
  })
  const change = { key: null, body: { name: 'by browser', permission: 'read' } } as const
  expect(await app.call(schema.createKey, { ...change, headers: { cookie } })).toMatchObject({
    status: 403,
    body: { code: 'csrf_token_invalid' },
  })
  const headers = { cookie, 'x-csrf-token': csrfToken }
  expect((await app.call(schema.createKey, { ...change, headers })).status).toBe(201)

  expect((await app.call(schema.deleteSession, { key: null, headers })).status).toBe(204)
  expect((await app.call(schema.readSession, { key: null, headers })).status).toBe(401)
})

test('the database contains neither cookie nor CSRF token', async () => {
  const { cookie, csrfToken } = await signIn()
  const { rows } = await app.database.pool.query('select to_jsonb(s)::text as row from sessions s')
  const dump = rows.map((row) => row.row).join()
  expect(dump).not.toContain(cookie.split('=')[1])
  expect(dump).not.toContain(csrfToken)
})

test('rejects the CSRF token of another session', async () => {
  const [one, two] = [await signIn(), await signIn()]
  const headers = { cookie: one.cookie, 'x-csrf-token': two.csrfToken }
  expect((await app.call(schema.deleteSession, { key: null, headers })).status).toBe(403)
})

test('a session ends with its key and at its expiry', async () => {
  const { body } = await app.call(schema.createKey, { body: { name: 'short', permission: 'read' } })
  const { cookie } = await signIn(body.key)
  await app.call(schema.deleteKey, { params: { keyId: body.id } })
  expect((await app.call(schema.readSession, { key: null, headers: { cookie } })).status).toBe(401)

  const late = await signIn()
  await app.database.pool.query(`update sessions set expires_at = now() - interval '1 second'`)
  expect((await app.call(schema.readSession, { key: null, headers: { cookie: late.cookie } })).status).toBe(401)
})

test('a bearer key has no CSRF token, and signing out with it changes nothing', async () => {
  expect((await app.call(schema.readSession)).body).toMatchObject({ org: 'local', csrfToken: null, expiresAt: null })
  expect((await app.call(schema.deleteSession)).status).toBe(204)
  expect((await app.call(schema.readSession)).status).toBe(200)
})

test('a wrong key cannot sign in, and guessing is limited by default', async () => {
  await using fresh = await testApp()
  const guess = () => fresh.call(schema.createSession, { key: null, body: { key: newKey() } })
  expect((await guess()).status).toBe(401)
  const statuses = await Promise.all(Array.from({ length: 25 }, async () => (await guess()).status))
  expect(statuses).toContain(429)
})

test('the cookie is Secure when the service uses https', async () => {
  await using secure = await testApp({ ASSAY_BASE_URL: 'https://assay.example' })
  const answer = await secure.call(schema.createSession, { key: null, body: { key: secure.adminKey } })
  expect(answer.headers.get('set-cookie')).toMatch(/; Secure$/)
})

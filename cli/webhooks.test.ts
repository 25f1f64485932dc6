import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../test/support/app.ts'
import { assay } from '../test/support/assay-command.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(() => app[Symbol.asyncDispose]())

const run = (...args: string[]) =>
  assay(['webhooks', ...args], { env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey } })

test('webhooks are added, listed, tried, changed and removed', async () => {
  const url = 'https://hooks.example.org/in?token=hush'
  const added = await run('add', url, '--event', 'release.published', 'batch.failed', '--description', 'Team room')
  expect(added.out).toMatch(/^whsec_\S{44}\n$/)
  const [, id = ''] = /Added the webhook (\S+)\. /.exec(added.err) ?? []
  const listed = await run('list')
  expect(listed.out).toMatch(
    new RegExp(`${id} +https://hooks.example.org/… +Team room +batch.failed release.published +enabled`),
  )
  expect(listed.out).not.toContain('hush')

  const tried = await run('test', id)
  const delivery = tried.out.trim()
  expect((await run('deliveries', id)).out).toMatch(new RegExp(`${delivery} +webhook.test +pending +0 +-`))
  expect((await run('redeliver', id, delivery)).err).toContain('delivery_pending')

  const fresh = await run('update', id, '--new-secret', '--event', 'comparison.completed')
  expect(fresh.out).toMatch(/^whsec_/)
  expect(fresh.out).not.toBe(added.out)
  expect((await run('update', id, '--disable')).code).toBe(0)
  expect((await run('list')).out).toContain('disabled: asked')
  expect((await run('test', id)).err).toContain('webhook_disabled')
  expect(JSON.parse((await run('update', id, '--enable', '--json')).out)).toMatchObject({ enabled: true })
  expect((await run('remove', id)).code).toBe(0)
  expect(JSON.parse((await run('list', '--json')).out)).toEqual({ webhooks: [], nextCursor: null })
})

test('reports wrong usage before any request', async () => {
  expect((await run('add', 'https://hooks.example.org/', '--event', 'trial.ended')).code).toBe(2)
  expect((await run('update', 'no-id', '--enable')).code).toBe(2)
  expect((await run('update', '01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11')).code).toBe(2)
  expect((await run('add', 'http://127.0.0.1/')).err).toContain('url_refused')
})

import { expect, test } from 'vitest'
import { testApp } from '../../test/support/app.ts'
import { readDoctor } from '../workspaces/schema.ts'
import { announceKeys, openKeyring } from './master-key.ts'
import { rotateMasterKey } from './rotate-master-key.ts'
import { checkCredential, createCredential, updateCredential } from './schema.ts'

const [OLD, NEW] = ['0123456789abcdef'.repeat(4), 'fedcba9876543210'.repeat(4)]

test('a process notices that it lacks the master key in use', async () => {
  await using app = await testApp({ ASSAY_SECRET_KEY: OLD })
  const { db } = app.database
  const keyring = await openKeyring({ db, dataFolder: '/nowhere', secretKey: OLD })
  const keys = announceKeys({ db, keyring, log: app.tools.log, everyMs: 10 })
  await expect.poll(() => app.database.pool.query('select 1 from key_holders').then(({ rowCount }) => rowCount)).toBe(1)
  expect(keys.holdsActiveKey()).toBe(true)
  await rotateMasterKey({ db, dataFolder: '/nowhere', secretKey: `${NEW},${OLD}`, force: true })
  await expect.poll(keys.holdsActiveKey).toBe(false)
  await keys.stop()
})

test('a process with only the old master key responds with 503, is not ready and names no key to workspaces', async () => {
  await using app = await testApp({ ASSAY_SECRET_KEY: OLD })
  const options = {
    kind: 'model',
    provider: 'openai',
    name: 'team key',
    secret: { apiKey: 'sk-0123456789abcdef' },
  } as const
  const { body: credential } = await app.call(createCredential, { body: options })
  expect((await app.fetch('/readyz')).status).toBe(200)
  const healthy = await app.call(readDoctor)
  expect(healthy.body.checks).toContainEqual(
    expect.objectContaining({ name: 'credentials', ok: true, detail: '1 stored, all can be opened' }),
  )

  const { from, to } = await rotateMasterKey({
    db: app.database.db,
    dataFolder: '/nowhere',
    secretKey: `${NEW},${OLD}`,
  })

  const at = { params: { credentialId: credential.id } }
  const answers = [
    await app.call(createCredential, { body: options }),
    await app.call(updateCredential, { ...at, body: { secret: options.secret } }),
    await app.call(checkCredential, at),
  ]
  for (const answer of answers)
    expect(answer).toMatchObject({ status: 503, body: { code: 'master_key_missing', retryable: true } })
  const readiness = await app.fetch('/readyz')
  expect(readiness.status).toBe(503)
  const doctor = await app.call(readDoctor)
  expect(doctor.body.checks.filter(({ ok }: { ok: boolean }) => !ok)).toMatchObject([
    { name: 'master key', detail: 'does not work' },
    { name: 'workers' },
    { name: 'credentials', detail: '1 of 1 stored secrets cannot be opened: team key' },
    { name: 'sandboxes' },
  ])
  for (const { text } of [...answers, readiness, healthy, doctor])
    for (const secret of [from, to, '/nowhere', 'secret.key', 'PostgreSQL']) expect(text).not.toContain(secret)
})

import { expect, test } from 'vitest'
import { OPERATOR_KEY, testApp } from '../../test/support/app.ts'
import { isKey } from './key.ts'
import * as schema from './schema.ts'

test('the operator creates a workspace whose first key opens it', async () => {
  await using app = await testApp()
  const created = await app.call(schema.createWorkspace, {
    key: OPERATOR_KEY,
    body: { login: 'Acme', name: 'Acme Inc.' },
  })
  expect(created).toMatchObject({ status: 201, body: { login: 'Acme', name: 'Acme Inc.', kind: 'org' } })
  expect(isKey(created.body.key)).toBe(true)

  const read = await app.call(schema.readWorkspace, { key: created.body.key, params: { org: 'aCME' } })
  expect(read).toMatchObject({ status: 200, body: { login: 'Acme' } })
})

import { expect, test } from 'vitest'
import { testApp } from '../../../test/support/app.ts'
import { testDatabase } from '../../../test/support/database.ts'
import { endpointGroups, routeGroups } from '../../app.ts'

test('no request with an Idempotency-Key needs a second database connection', async () => {
  await using database = await testDatabase({ max: 1 })
  await using app = await testApp({ ASSAY_MODEL_NETWORKS: 'local=127.0.0.0/8' }, database)
  const creating = endpointGroups(routeGroups(app.tools))
    .flatMap(({ endpoints }) => endpoints)
    .filter(({ creates, example, path }) => creates && example && path.startsWith('/api/orgs/{org}/'))
  expect(creating.map(({ id }) => id)).toContain('createCredential')
  for (const { id, path, example } of creating) {
    const { body } = await app.fetch(path.replace('{org}', 'local').replaceAll(/\{\w+\}/g, 'none'), {
      method: 'POST',
      body: JSON.stringify(example),
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${app.adminKey}`,
        'idempotency-key': 'first',
      },
    })
    expect([id, body.code]).not.toEqual([id, 'unavailable'])
  }
})

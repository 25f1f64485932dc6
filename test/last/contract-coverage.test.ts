import { readFileSync } from 'node:fs'
import { expect, inject, test } from 'vitest'
import { operationsOf } from '../contract/operations.ts'
import { testApp } from '../support/app.ts'

test('every status that the document promises was seen in this run', async () => {
  await using app = await testApp()
  const seen = new Set(readFileSync(inject('ledger'), 'utf8').split('\n'))
  const promised = (await operationsOf(app)).flatMap(({ id, statuses }) => statuses.map((status) => `${id} ${status}`))
  expect(promised.filter((pair) => !seen.has(pair))).toEqual([])
})

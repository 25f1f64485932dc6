import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { endingOfThrow } from './ending.ts'
import type { ClaimedJob } from './sql.ts'

const job: ClaimedJob = {
  ...{ id: 'one', kind: 'note', payload: {}, attempt: 1, leaseId: 'lease', everySeconds: null },
  ...{ failures: 0, failuresMax: 5, crashes: 0, memoryMb: 0 },
}

const endingOf = (thrown: unknown) => endingOfThrow(thrown, { leaseState: 'held', aborted: false }, job)

test('a socket of the database that is gone is no failure of the job; a file that is gone is one', async () => {
  const [noSocket] = await once(connect('/nowhere/.s.PGSQL.5432'), 'error').catch((error: unknown) => [error])
  const noFile = await readFile('/nowhere').catch((error: unknown) => error)
  expect([noSocket, noFile]).toMatchObject([{ code: 'ENOENT' }, { code: 'ENOENT' }])
  expect(endingOf(noSocket)).toMatchObject({ kind: 'crash', error: noSocket.message })
  expect(endingOf(noFile)).toMatchObject({ kind: 'retry' })
})

import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { toErrorEnding } from './run.ts'
import type { ClaimedJob } from './sql.ts'

const job: ClaimedJob = {
  id: 'one',
  type: 'note',
  payload: {},
  attempt: 1,
  leaseId: 'lease',
  everySeconds: null,
  failures: 0,
  failuresMax: 5,
  crashes: 0,
  deaths: 0,
  unattendedMs: 0,
  memoryMb: 0,
}

const toEnding = (error: unknown) => toErrorEnding(error, { leaseState: 'held', aborted: false }, job)

test('a missing database socket is not a failure of the job; a missing file is', async () => {
  const [noSocket] = await once(connect('/nowhere/.s.PGSQL.5432'), 'error').catch((error: unknown) => [error])
  const noFile = await readFile('/nowhere').catch((error: unknown) => error)
  expect([noSocket, noFile]).toMatchObject([{ code: 'ENOENT' }, { code: 'ENOENT' }])
  expect(toEnding(noSocket)).toMatchObject({ kind: 'crash', error: noSocket.message })
  expect(toEnding(noFile)).toMatchObject({ kind: 'retry' })
})

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { buildArchive, smallTask } from '../../test/support/archives.ts'
import { createScriptedValidator, openImportLab, VALID } from '../../test/support/batches.ts'
import { hasPart } from '../../test/support/parts.ts'
import { mountSmallDisk } from '../../test/support/small-disk.ts'
import type { Blobs } from '../platform/blobs/blob.ts'
import type { ValidationOutcome } from './validate.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const waits = { workerMs: 0, retryMs: 0, sandboxMs: 60_000 }
const hurry = () => app.database.pool.query('update jobs set run_at = now()')

function failWithFullDisk(): never {
  const cause = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  throw new Error('The sandbox cannot start.', { cause })
}

test('a full disk defers the validation of an imported task, however often it fails', async () => {
  let isFull = true
  const validate = createScriptedValidator(() => (isFull ? failWithFullDisk() : VALID))
  const lab = await openImportLab(app, validate, { waits })
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  for (let tries = 0; tries < 5; tries++) {
    await hurry()
    await lab.work()
  }
  expect(await lab.read(runId)).toMatchObject({ state: 'waiting', counts: { rejected: 0 } })
  isFull = false
  await hurry()
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
})

test('a full disk defers the unpacking of an archive, however often it fails', async () => {
  let isFull = true
  const { blobs } = app.tools
  const full: Blobs = { ...blobs, get: (digest) => (isFull ? failWithFullDisk() : blobs.get(digest)) }
  const lab = await openImportLab(app, undefined, { waits, blobs: full })
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  for (let tries = 0; tries < 9; tries++) {
    await hurry()
    await lab.work()
  }
  expect(await lab.read(runId)).toMatchObject({ state: 'waiting' })
  isFull = false
  await hurry()
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 1 } })
})

test.skipIf(!hasPart('bwrap'))('tests that fail while the disk is full do not reject a task', async () => {
  await using disk = await mountSmallDisk(40, 1_000)
  const REJECTED: ValidationOutcome = {
    kind: 'rejected',
    rejection: { reason: 'oracle_fails', detail: 'No space left on device' },
    calibration: VALID.calibration,
  }
  const lab = await openImportLab(
    app,
    createScriptedValidator(() => REJECTED),
    { waits, trialsFolder: disk.path },
  )
  const { runId } = (await lab.send(buildArchive({ hello: smallTask() }))).body
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'waiting', counts: { rejected: 0 } })
})

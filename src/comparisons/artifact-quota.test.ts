import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { createScriptedEngine, openComparisonLab } from '../../test/support/comparisons.ts'
import type { Digest } from '../platform/blobs/blob.ts'
import { inBenchmark } from './schema.ts'
import type { ComparisonTrial } from './shapes/schema.ts'
import { sweepArtifacts } from './trials/artifacts.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp({ ASSAY_ARTIFACT_GB: '2' })
})
afterAll(async () => app[Symbol.asyncDispose]())

const GIGABYTE = 1_000_000_000
const countArtifacts = (trials: ComparisonTrial[]) => trials.flatMap(({ artifacts }) => artifacts).length

test('a workspace whose trial artifacts reach the quota stores no more, and its trials are scored', async () => {
  const lab = await openComparisonLab(app)
  const { body: first } = await lab.create()
  await lab.work()
  expect(countArtifacts(await lab.trials(first.id))).toBe(10)
  await app.database.pool.query('update trial_files set bytes = $1', [GIGABYTE / 5])
  await app.database.pool.query('update trial_file_totals set bytes = (select sum(bytes) from trial_files)')
  const { body: second } = await lab.create()
  await lab.work()
  expect(await lab.read(second.id)).toMatchObject({ state: 'completed', trials: { passed: 5, failed: 5, errored: 0 } })
  const trials = await lab.trials(second.id)
  expect(countArtifacts(trials)).toBe(0)
  const { body } = await app.call(inBenchmark.trial, lab.at(second.id, { trialId: trials[0].id }))
  expect(body.error).toMatch(/Artifacts could not be stored: .* 2 GB .*ASSAY_ARTIFACT_GB/)
  // Deleted artifacts no longer count.
  await app.database.pool.query(`update trials set finished_at = finished_at - interval '2 days'`)
  await sweepArtifacts({ db: app.tools.database.db, blobs: app.tools.blobs }, 1)
  const { body: third } = await lab.create()
  await lab.work()
  expect(countArtifacts(await lab.trials(third.id))).toBe(10)
})

test('artifacts that no trial refers to are deleted after a day', async () => {
  let attempts = 0
  const engine = createScriptedEngine(({ outputFolder }) => {
    writeFileSync(join(outputFolder, 'attempt.log'), `${++attempts}`)
    if (attempts > 2) return {}
    return { state: 'errored', class: 'sandbox_error', reward: null, rewards: {}, error: 'broke' }
  })
  const lab = await openComparisonLab(app, engine)
  const { body } = await lab.create()
  await lab.work()
  const removed: Digest[] = []
  const blobs = {
    ...app.tools.blobs,
    remove: async (digest: Digest) => {
      removed.push(digest)
      await app.tools.blobs.remove(digest)
    },
  }
  const sweep = () => sweepArtifacts({ db: app.tools.database.db, blobs }, 30)
  expect(await sweep()).toBe(0)
  await app.database.pool.query(`update trial_files set stored_at = stored_at - interval '2 days'`)
  expect(await sweep()).toBe(2)
  expect(removed).toHaveLength(2)
  const sums =
    'select (select sum(bytes) from trial_files) as files, (select sum(bytes) from trial_file_totals) as total'
  const { rows } = await app.database.pool.query(sums)
  expect(rows[0].total).toBe(rows[0].files)
  for (const { id, artifacts } of await lab.trials(body.id)) {
    const artifact = lab.at(body.id, { trialId: id, artifact: artifacts[0].name })
    expect((await app.call(inBenchmark.artifact, artifact)).status).toBe(200)
  }
})

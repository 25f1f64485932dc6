import { expect, test } from 'vitest'
import { openModelGenerationLab } from '../../../test/support/generating-models.ts'
import { askingStages } from '../../../test/support/taskgen/asking-stages.ts'
import type { StageScript } from '../../../test/support/taskgen/scripted-stages.ts'
import { previewBatch } from '../../batches/schema.ts'
import { countRemainingSpend } from './facts.ts'

const TWO = { easy: 2, medium: 0, hard: 0 }
// The author costs 4 and 20 dollars for a million tokens, the verifier 2 and 10.
const TASK_USD = 0.006 + 0.003

test('counts model spend once, and cached results cost nothing', async () => {
  await using lab = await openModelGenerationLab(TWO, askingStages())
  const { run, runId, tasks } = await lab.made(TWO)
  expect(run).toMatchObject({ state: 'completed', counts: { ready: 2 } })
  expect(run.costUsd).toBeCloseTo(2 * TASK_USD, 6)
  expect((await lab.task(runId, tasks[0].taskId)).costUsd).toBeCloseTo(TASK_USD, 6)
  const again = await lab.made(TWO, { again: true })
  // The author's work is taken over; the verifier judges the files, which carry an id of their own.
  expect(again.run.costUsd).toBeCloseTo(2 * 0.003, 6)
  const { spent, uncounted, grants } = await lab.grants()
  expect({ uncounted, grants }).toEqual({ uncounted: 0, grants: 6 })
  expect(spent).toBe(Math.round((run.costUsd + again.run.costUsd) * 1e6))
})

test('a preview reports the yield of earlier candidates', async () => {
  const FIVE = { easy: 5, medium: 0, hard: 0 }
  await using lab = await openModelGenerationLab(FIVE, askingStages())
  const costOf = async () => {
    const body = { candidateCounts: TWO, again: true }
    return (await lab.app.call(previewBatch, { params: lab.place, body })).body.cost
  }
  expect(await costOf()).toEqual({ candidates: 2, capUsd: 1.6, usualUsd: null })
  await lab.made(FIVE)
  expect(await costOf()).toEqual({ candidates: 2, capUsd: 1.6, usualUsd: expect.closeTo(2 * TASK_USD, 6) })
})

test('bounds the spend on a provider that fails in the middle of every call', async () => {
  let attempts = 0
  const text = 'x'.repeat(25_000)
  const reviews: StageScript = {
    async review(_, context, signal) {
      attempts += 1
      const limits = { budgetMicros: 100_000, outputMicros: 20_000, callsMax: 2, durationMs: 60_000 }
      const model = await context.model('verifier', limits)
      const question = { system: 'You help.', messages: [], shape: { name: 'answer', schema: {} } }
      await model.ask({ ...question, messages: [{ role: 'user', text }] }, signal)
      return { kind: 'deferred', reason: 'provider', detail: 'It broke.', retryAfterMs: 60_000 }
    },
  }
  await using lab = await openModelGenerationLab({ ...TWO, easy: 1 }, askingStages(reviews, text), {
    input: 25_000,
    output: 0,
  })
  const { runId } = await lab.made({ easy: 1 })
  for (let tries = 0; tries < 10 && (await lab.read(runId)).state !== 'completed'; tries += 1) {
    await lab.hurry()
    await lab.work()
  }
  // Five cents each: with the fourth, twice the share is spent.
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', rejections: { verifier_budget: 1 } })
  expect(attempts).toBe(5)
  // The author has cost ten cents before.
  expect((await lab.grants()).spent).toBe(100_000 + 4 * 50_000)
})

test('a batch pauses when its budget is spent and continues with a larger one', async () => {
  await using lab = await openModelGenerationLab(TWO, askingStages({}, 'x'.repeat(120_000)), {
    input: 120_000,
    output: 0,
  })
  const { run, runId } = await lab.made(TWO, { budgetUsd: 1.2 })
  expect(run).toMatchObject({ state: 'waiting', waiting: { reason: 'budget' }, budgetUsd: 1.2, counts: { ready: 0 } })
  expect(run.counts.deferred).toBe(2)
  expect(run.costUsd).toBeCloseTo(0.96, 6)
  await lab.hurry()
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'waiting', costUsd: run.costUsd })
  expect((await lab.resume(runId, { budgetUsd: 100 })).body).toMatchObject({ budgetUsd: 100 })
  await lab.work()
  const done = await lab.read(runId)
  expect(done).toMatchObject({ state: 'completed', counts: { ready: 2, deferred: 0 } })
  expect(Math.round(done.costUsd * 1e6)).toBe((await lab.grants()).spent)
})

test('candidates that call models at the same time do not exceed the budget of their batch', async () => {
  const text = 'x'.repeat(120_000)
  const limits = { budgetMicros: 1_000_000, outputMicros: 100_000, callsMax: 10, durationMs: 600_000 }
  let workMeanwhile: (() => Promise<void>) | undefined
  const review: StageScript['review'] = async (_, context, signal) => {
    const model = await context.model('verifier', limits)
    const others = workMeanwhile
    workMeanwhile = undefined
    await others?.()
    const question = { system: 'You help.', shape: { name: 'answer', schema: {} } }
    const answer = await model.ask({ ...question, messages: [{ role: 'user', text }] }, signal)
    return answer.kind === 'deferred' ? answer : (undefined as never)
  }
  await using lab = await openModelGenerationLab(TWO, askingStages({ review }, text), { input: 120_000, output: 0 })
  workMeanwhile = lab.work
  // The authors cost 0.96, and a review costs 0.24.
  const { run, runId } = await lab.made(TWO, { budgetUsd: 1.4 })
  expect(run).toMatchObject({ state: 'waiting', waiting: { reason: 'budget' }, counts: { ready: 1, deferred: 1 } })
  expect((await lab.grants()).spent).toBe(1_200_000)

  await lab.resume(runId, { budgetUsd: 2 })
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed', counts: { ready: 2 }, costUsd: 1.44 })
})

test('counts the spend of a task that was canceled in the middle', async () => {
  const asking = askingStages()
  const lab = await openModelGenerationLab({ easy: 1, medium: 0, hard: 0 }, asking)
  await using _ = lab
  const { runId } = (await lab.create({ easy: 1 })).body
  const { run } = asking.authoring
  asking.authoring.run = async (state, context, signal) => {
    const result = await run(state, context, signal)
    await lab.cancel(runId)
    await lab.app.database.pool.query(`update jobs set cancel_requested = true where state = 'running'`)
    await lab.app.database.pool.query(`update gateway_grants set counted_at = null`)
    throw Object.assign(new Error('gone'), { result })
  }
  await lab.work()
  await lab.app.database.pool.query(`update gateway_grants set closed_at = now() - interval '1 hour'`)
  await countRemainingSpend(lab.app.database.db)
  await countRemainingSpend(lab.app.database.db)
  expect(await lab.read(runId)).toMatchObject({ state: 'canceled', costUsd: 0.006 })
})

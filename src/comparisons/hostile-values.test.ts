import { Buffer } from 'node:buffer'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../../test/support/app.ts'
import { createScriptedEngine, openComparisonLab } from '../../test/support/comparisons.ts'
import { readReward } from '../harbor/reward.ts'
import { toFailedOutcome, toStepOutcome, toTrialOutcome } from '../trials/outcome.ts'
import type { StepRecord, TrialRecord } from '../trials/record.ts'
import type { ComparisonTrial } from './shapes/schema.ts'
import type { TrialRunRequest } from './trials/engine.ts'

let app: TestApp
beforeAll(async () => {
  app = await testApp()
})
afterAll(async () => app[Symbol.asyncDispose]())

const SEED = 15_001
const ATTEMPTS = 8
const TRIALS = 10 * ATTEMPTS

const KEYS = [
  'reward',
  '__proto__',
  'constructor',
  'toString',
  'a\0b',
  '\ud800',
  '\udfff\ud800',
  '\u007f',
  '',
  'k'.repeat(201),
]
const key = fc.oneof(fc.constantFrom(...KEYS), fc.string({ unit: 'binary', maxLength: 20 }))
const number = fc.oneof(
  fc.constantFrom('-0', '1e400', '-1e400', '1e-400', '0.1e1', '999999999999999999999', 'NaN', '1E6', '1e7'),
  fc.double().map(String),
)
const table = fc
  .array(fc.tuple(key, number), { maxLength: 6 })
  .map((entries) => `{${entries.map(([name, value]) => `${JSON.stringify(name)}: ${value}`).join(', ')}}`)
const nested = fc.constantFrom('['.repeat(60_000), `{"a":${'['.repeat(9_000)}1${']'.repeat(9_000)}}`)
const rewardBytes = fc.oneof(
  { weight: 6, arbitrary: table.map((text) => Buffer.from(text)) },
  { weight: 1, arbitrary: nested.map((text) => Buffer.from(text)) },
  { weight: 2, arbitrary: fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)) },
)
/** Any bytes that a file system takes as a name. */
const fileName = fc
  .uint8Array({ minLength: 1, maxLength: 255 })
  .map((bytes) => Buffer.from(bytes.map((byte) => (byte === 0 || byte === 0x2f ? 0x20 : byte))))
  .filter((name) => !['.', '..'].includes(name.toString()))
const text = fc
  .array(fc.oneof(fc.constantFrom('\0', '\ud800', '\udc00', '\u001b[2J', '\\', '"'), fc.string({ unit: 'binary' })))
  .map((parts) => parts.join(''))
const hostile = fc.record({
  json: fc.option(rewardBytes, { nil: undefined }),
  txt: fc.option(rewardBytes, { nil: undefined }),
  output: fc.uint8Array({ maxLength: 2000 }),
  names: fc.array(fileName, { maxLength: 4 }),
  error: fc.option(text, { nil: undefined }),
  code: fc.oneof(fc.constant(null), fc.integer()),
  second: fc.boolean(),
})
type Hostile = typeof hostile extends fc.Arbitrary<infer T> ? T : never

/** What the engine makes of these bytes: the real readers and decisions, for one step or two of a mean. */
async function recordOf(folder: string, data: Hostile): Promise<Partial<TrialRecord>> {
  const reward = mkdtempSync(join(folder, 'reward-'))
  if (data.json) writeFileSync(join(reward, 'reward.json'), data.json)
  if (data.txt) writeFileSync(join(reward, 'reward.txt'), data.txt)
  const exit = { code: data.code, limit: null, seconds: 1, outputBytes: 0 }
  const outcome = toStepOutcome(exit, await readReward(reward))
  rmSync(reward, { recursive: true })
  const step = { agent: exit, verifier: exit, notes: [], ...outcome } as unknown as StepRecord
  const plain = { ...step, reward: 1, rewards: { reward: 1 }, error: null }
  const steps = data.second ? [plain, step] : [step]
  const verdict = outcome.error === null ? toTrialOutcome(steps, 'mean') : toFailedOutcome(steps, 'mean')
  return { ...verdict, error: data.error ?? verdict.error }
}

function leaveFiles(folder: string, { output, names }: Hostile): void {
  writeFileSync(join(folder, 'agent-1.log'), output)
  const artifacts = join(folder, 'artifacts')
  mkdirSync(artifacts)
  for (const name of names) writeFileSync(Buffer.concat([Buffer.from(`${artifacts}/`), name]), output)
}

test('a trial is stored as scored and readable, whatever bytes agent and verifier leave', async () => {
  const samples = fc.sample(hostile, { seed: SEED, numRuns: TRIALS })
  const used = new Map<TrialRunRequest, Hostile>()
  const engine = createScriptedEngine(async (order) => {
    const data = samples[used.size % samples.length] as Hostile
    used.set(order, data)
    leaveFiles(order.outputFolder, data)
    return recordOf(order.outputFolder, data)
  })
  const lab = await openComparisonLab(app, engine)
  const { body } = await lab.create({ attempts: ATTEMPTS })
  await lab.work()
  expect(used.size, 'no trial was run twice').toBe(TRIALS)
  const status = await lab.read(body.id)
  expect(status, `seed ${SEED}`).toMatchObject({ state: 'completed', trials: { total: TRIALS, errored: 0 } })
  const trials: ComparisonTrial[] = await lab.trials(body.id, { limit: '100' })
  expect(trials).toHaveLength(TRIALS)
  for (const trial of trials) {
    expect(['passed', 'failed'], `seed ${SEED}`).toContain(trial.state)
    expect(['verified', 'agent_exit']).toContain(trial.class)
    expect(trial.reward === null || Number.isFinite(trial.reward)).toBe(true)
    for (const artifact of trial.artifacts) expect(artifact.name).toMatch(/^[^\p{Cc}]{1,255}$/u)
  }
})

test('a result is kept when its artifacts cannot be stored', async () => {
  const broken = { ...app.tools.blobs, put: () => Promise.reject(new Error('The disk is full\0.')) }
  let runs = 0
  await using own = await testApp()
  const lab = await openComparisonLab(
    own,
    createScriptedEngine(() => {
      runs += 1
      return {}
    }),
    { blobs: broken },
  )
  const { body } = await lab.create()
  await lab.work()
  expect(runs).toBe(10)
  expect(await lab.read(body.id)).toMatchObject({ state: 'completed', trials: { passed: 5, failed: 5, errored: 0 } })
  const [trial] = await lab.trials(body.id)
  expect(trial).toMatchObject({ artifacts: [], error: 'Artifacts could not be stored: The disk is full.' })
})

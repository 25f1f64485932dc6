import { expect, test } from 'vitest'
import type { Exit } from '../sandboxes/sandbox.ts'
import { toNoNetworkRecord } from './network.ts'
import { meetsMinimum, toFailedOutcome, toStepOutcome, toTrialOutcome } from './outcome.ts'
import type { StepRecord } from './record.ts'

const fine: Exit = { code: 0, limit: null, seconds: 1, outputBytes: 0 }
const none = toNoNetworkRecord({ mode: 'undeclared', hosts: [] })
const step = (rewards: Record<string, number>, change: Partial<StepRecord> = {}): StepRecord => ({
  name: null,
  agent: fine,
  verifier: fine,
  reward: rewards.reward ?? null,
  rewards,
  error: null,
  carried: [],
  notes: [],
  network: { agent: none, verifier: none },
  hooks: [],
  artifacts: [],
  ...change,
})

test.each([
  [{ reward: 1 }, 'passed', 1],
  [{ reward: 1.5 }, 'passed', 1.5],
  [{ reward: 0.99 }, 'failed', 0.99],
  [{ score: 1 }, 'passed', 1],
  [{ a: 1, b: 1 }, 'failed', null],
  [{ reward: 0, b: 1 }, 'failed', 0],
  [{}, 'failed', null],
] as const)('rewards %j are %s', (rewards, state, reward) => {
  expect(toTrialOutcome([step(rewards)], 'mean')).toMatchObject({ state, reward, class: 'verified' })
})

test('a verifier without a reward, or that ran into a limit, is an error and never a zero', () => {
  expect(toStepOutcome(fine, { kind: 'missing' })).toMatchObject({
    reward: null,
    error: 'The verifier left no reward.',
  })
  const reward = { kind: 'reward', passed: true, reward: 1, rewards: { reward: 1 } } as const
  expect(toStepOutcome({ ...fine, limit: 'seconds' }, reward)).toMatchObject({ reward: null })
  const verdict = toTrialOutcome([step({ reward: 1 }), step({}, { error: 'gone' })], 'mean')
  expect(verdict).toMatchObject({ state: 'errored', class: 'verifier_error', reward: null, error: 'gone' })
})

test.each([
  [{ ...fine, limit: 'seconds' as const }, 'agent_timeout'],
  [{ ...fine, code: null, limit: 'memory' as const }, 'limit'],
  [{ ...fine, code: 3 }, 'agent_exit'],
  [null, 'verified'],
])('the class says how the agent ended, and the reward still decides', (agent, kind) => {
  expect(toTrialOutcome([step({ reward: 1 }, { agent })], 'mean')).toMatchObject({ state: 'passed', class: kind })
})

test('the mean counts a missing key as 0; strategy final uses the last step only', () => {
  const steps = [step({ reward: 1, style: 1 }), step({ reward: 0 })]
  expect(toTrialOutcome(steps, 'mean')).toMatchObject({ rewards: { reward: 0.5, style: 0.5 }, state: 'failed' })
  expect(toTrialOutcome([step({ reward: 0 }), step({ reward: 1 })], 'final')).toMatchObject({ state: 'passed' })
})

test('a step that did not run counts as 0', () => {
  const ran = [step({ reward: 1 }), step({ reward: 1, rows: 0 })]
  expect(toTrialOutcome(ran, 'final', 3)).toMatchObject({ state: 'failed', reward: 0, rewards: { reward: 0 } })
  expect(toTrialOutcome(ran, 'mean', 4)).toMatchObject({ state: 'failed', rewards: { reward: 0.5, rows: 0 } })
  expect(toTrialOutcome(ran, 'final', 2)).toMatchObject({ state: 'passed', reward: 1 })
  const unscored = step({}, { error: 'gone' })
  expect(toFailedOutcome([step({ reward: 1 }), unscored], 'mean', 4)).toMatchObject({ state: 'failed', reward: 0.25 })
})

test('a step below its minimum reward, or without one, ends the trial', () => {
  expect(meetsMinimum(step({ reward: 1 }), [{ key: 'reward', atLeast: 1 }])).toBe(true)
  expect(meetsMinimum(step({ reward: 0.5 }), [{ key: 'reward', atLeast: 1 }])).toBe(false)
  expect(meetsMinimum(step({ reward: 1 }), [{ key: 'other', atLeast: 0 }])).toBe(false)
  expect(meetsMinimum(step({}, { error: 'gone' }), [])).toBe(false)
})

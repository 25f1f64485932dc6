import { expect, test } from 'vitest'
import type { Exit } from '../sandboxes/sandbox.ts'
import { toNoNetworkRecord } from './network.ts'
import { meetsMinimum, toFailedOutcome, toStepOutcome, toTrialOutcome } from './outcome.ts'
import type { StepRecord } from './record.ts'

const FINE: Exit = { code: 0, limit: null, seconds: 1, outputBytes: 0 }
const NETWORK = toNoNetworkRecord({ mode: 'undeclared', hosts: [] })
const step = (rewards: Record<string, number>, over: Partial<StepRecord> = {}): StepRecord => ({
  name: null,
  agent: FINE,
  verifier: FINE,
  reward: rewards.reward ?? null,
  rewards,
  error: null,
  notes: [],
  network: { agent: NETWORK, verifier: NETWORK },
  hooks: [],
  artifacts: [],
  carried: [],
  ...over,
})
const unscored = step({}, { error: 'No reward.' })

test('a step has the rewards of its verifier, or the reason why it has none', () => {
  const reading = { kind: 'reward', passed: true, reward: 1, rewards: { reward: 1, style: 0.5 } } as const
  expect(toStepOutcome(FINE, reading)).toEqual({ reward: 1, rewards: { reward: 1, style: 0.5 }, error: null })
  const refused = { kind: 'refused', file: 'reward.txt', reason: 'empty', message: 'It is empty.' } as const
  expect(toStepOutcome(FINE, refused)).toEqual({
    reward: null,
    rewards: {},
    error: 'The reward in reward.txt is refused: It is empty.',
  })
  expect(toStepOutcome({ ...FINE, limit: 'memory' }, reading)).toEqual({
    reward: null,
    rewards: {},
    error: 'The verifier ran into its limit: memory.',
  })
  expect(toStepOutcome(FINE, { kind: 'missing' })).toMatchObject({ reward: null, rewards: {} })
})

test('the next step is run only if every required reward was reached', () => {
  const required = [
    { key: 'a', atLeast: 1 },
    { key: 'b', atLeast: 0 },
  ]
  expect(meetsMinimum(step({ a: 1, b: 0 }), required)).toBe(true)
  expect(meetsMinimum(step({ a: 1, b: -0.1 }), required)).toBe(false)
  expect(meetsMinimum(step({ a: 0.9, b: 1 }), required)).toBe(false)
  expect(meetsMinimum(step({ a: 1 }), required)).toBe(false)
  expect(meetsMinimum(step({}), [])).toBe(true)
})

test('the verdict is that of the last step, or the mean of all steps', () => {
  const steps = [step({ reward: 1, style: 1 }), step({ reward: 0.5 }), step({ reward: 0.9 })]
  expect(toTrialOutcome(steps, 'final')).toMatchObject({ state: 'failed', reward: 0.9, rewards: { reward: 0.9 } })
  expect(toTrialOutcome(steps, 'mean')).toMatchObject({
    state: 'failed',
    reward: expect.closeTo(0.8, 9),
    rewards: { reward: expect.closeTo(0.8, 9), style: expect.closeTo(1 / 3, 9) },
  })
  expect(toTrialOutcome([step({ a: 0 }), step({ a: 1 })], 'final')).toMatchObject({ state: 'passed', reward: 1 })
  expect(Object.keys(toTrialOutcome([step({ b: 1, a: 1 }), step({ c: 1 })], 'mean').rewards)).toEqual(['a', 'b', 'c'])
  expect(toTrialOutcome([], 'final')).toMatchObject({ state: 'failed', reward: null, rewards: {} })
})

test.each<[exits: (Partial<Exit> | null)[], word: string, limit: string | null]>([
  [[{}], 'verified', null],
  [[null], 'verified', null],
  [[], 'verified', null],
  [[{ code: 1 }], 'agent_exit', null],
  [[{}, { code: 2 }], 'agent_exit', null],
  [[{ code: null, limit: 'memory' }], 'limit', 'memory'],
  [[null, { limit: 'disk' as never }, {}], 'limit', 'disk'],
  [[{ code: 1 }, { limit: 'memory' }], 'limit', 'memory'],
  [[{ limit: 'memory' }, { limit: 'seconds' }], 'agent_timeout', 'memory'],
  [[{ code: 1 }, { limit: 'seconds' }, null], 'agent_timeout', 'seconds'],
])('agents that ended as %j make the class %s and the limit %s', (exits, word, limit) => {
  const steps = exits.map((exit) => step({ reward: 1 }, { agent: exit && { ...FINE, ...exit } }))
  const state = exits.length > 0 ? 'passed' : 'failed'
  expect(toTrialOutcome(steps, 'mean')).toMatchObject({ state, class: word, limit, error: null })
})

test('a step without a reward makes the trial an error, with the limit that its agent ran into', () => {
  const limited = step({ reward: 1 }, { agent: { ...FINE, limit: 'seconds' } })
  expect(toTrialOutcome([limited, unscored], 'final')).toEqual({
    state: 'errored',
    class: 'verifier_error',
    reward: null,
    rewards: {},
    limit: 'seconds',
    error: 'No reward.',
  })
})

test('a step without a reward that the agent caused scores 0, and the trial fails', () => {
  expect(toFailedOutcome([unscored], 'mean')).toMatchObject({
    state: 'failed',
    class: 'verified',
    reward: 0,
    rewards: { reward: 0 },
    error: null,
  })
  expect(toFailedOutcome([step({ reward: 1 }), unscored], 'mean')).toMatchObject({ state: 'failed', reward: 0.5 })
  expect(toFailedOutcome([unscored, step({ reward: 1 })], 'final')).toMatchObject({ state: 'failed', reward: 1 })
  expect(toFailedOutcome([step({ style: 1 }), unscored], 'final')).toMatchObject({ reward: 0, rewards: { reward: 0 } })
  const left = step({ reward: 1 }, { error: 'No verdict.' })
  expect(toFailedOutcome([left], 'final')).toMatchObject({ reward: 0, rewards: { reward: 0 } })
})

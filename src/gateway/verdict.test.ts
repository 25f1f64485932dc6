import { expect, test } from 'vitest'
import type { TrialClass } from '../trials/record.ts'
import type { FailureKind, Refusal } from './ledger.ts'
import { type GrantTotals, totals } from './totals.ts'
import { applyVerdict, verdictOf } from './verdict.ts'

const NOTHING = totals({
  grant: {} as never,
  spentMicros: 0,
  refusals: {},
  lastRefusal: null,
  closedAt: null,
  calls: [],
})

type Seen = {
  gatewayGone?: boolean
  succeeded?: number
  cut?: number
  last?: FailureKind | Refusal
  isRecovered?: boolean
  status?: number
  refusals?: number
}

const seen = ({
  succeeded = 1,
  cut = 0,
  last,
  isRecovered = false,
  status,
  refusals = 0,
  gatewayGone = false,
}: Seen): GrantTotals => ({
  ...NOTHING,
  gatewayGone,
  calls: { ...NOTHING.calls, succeeded, cut },
  modelRefusals: refusals,
  lastFailure: last ? { status: status ?? null, kind: last, at: new Date(0), isRecovered } : null,
})

const passed = { state: 'passed', class: 'verified', error: null } as const
const failed = (word: TrialClass = 'verified') => ({ state: 'failed', class: word, error: null }) as const

test('what the verifier says stands where the provider did its part', () => {
  expect(verdictOf(passed, seen({}))).toEqual({ kind: 'judged', ...passed })
  expect(verdictOf(failed('agent_exit'), seen({}))).toEqual({ kind: 'judged', ...failed('agent_exit') })
  expect(verdictOf(passed, seen({ last: 'rate', isRecovered: true }))).toEqual({ kind: 'judged', ...passed })
})

test('a key that is not taken stops everything, also after it was taken', () => {
  expect(verdictOf(failed(), seen({ succeeded: 0, last: 'credential' })).kind).toBe('stopped')
  expect(verdictOf(passed, seen({ succeeded: 5, last: 'credential' })).kind).toBe('stopped')
})

test.each<[Seen, string]>([
  [{ last: 'rate' }, 'provider_error'],
  [{ last: 'upstream' }, 'provider_error'],
  [{ cut: 1 }, 'provider_error'],
  [{ last: 'model', status: 404 }, 'operator_error'],
  [{ last: 'price' }, 'operator_error'],
])('without one answer a proven outage is not scored, whatever the verifier says: %j', (what, word) => {
  for (const record of [passed, failed('agent_timeout')]) {
    expect(verdictOf(record, seen({ ...what, succeeded: 0 }))).toMatchObject({ state: 'errored', class: word })
  }
})

test.each<[Seen, string]>([
  [{}, 'verified'],
  [{ last: 'busy' }, 'verified'],
  [{ last: 'model' }, 'verified'],
  [{ last: 'request' }, 'verified'],
  [{ last: 'hosted' }, 'verified'],
  [{ last: 'malformed' }, 'verified'],
  [{ last: 'size' }, 'verified'],
  [{ last: 'token' }, 'verified'],
  [{ last: 'budget' }, 'budget_stop'],
  [{ last: 'calls' }, 'limit'],
])('a program cannot exclude its trial by never getting an answer: %j', (what, word) => {
  for (const record of [passed, failed()]) {
    const verdict = verdictOf(record, seen({ ...what, succeeded: 0 }))
    expect(verdict).toMatchObject({ kind: 'judged', state: 'failed', class: word, error: expect.any(String) })
    if (verdict.kind !== 'judged') continue
    expect(applyVerdict({ ...record, reward: 1, rewards: { reward: 1 } }, verdict).state).toBe('failed')
  }
  const verdict = verdictOf(passed, seen({ ...what, succeeded: 0 }))
  if (verdict.kind === 'judged')
    expect(applyVerdict({ ...passed, reward: 1, rewards: { reward: 1 } }, verdict)).toMatchObject({ reward: 0 })
})

test('a provider that breaks off in the middle spoils passes and failures alike', () => {
  for (const record of [passed, failed('agent_exit')]) {
    expect(verdictOf(record, seen({ succeeded: 9, last: 'upstream' }))).toMatchObject({
      state: 'errored',
      class: 'provider_error',
    })
  }
})

test('a gateway that died spoils passes and failures alike, whatever the provider did before', () => {
  for (const record of [passed, failed('agent_exit')])
    for (const last of ['request', 'budget'] as const)
      expect(verdictOf(record, seen({ last, gatewayGone: true }))).toMatchObject({ class: 'provider_error' })
})

test('who runs into its own budget is judged by what is there', () => {
  expect(verdictOf(passed, seen({ last: 'budget' }))).toMatchObject({ state: 'passed', class: 'budget_stop' })
  expect(verdictOf(failed('agent_exit'), seen({ last: 'budget' }))).toMatchObject({ class: 'budget_stop' })
  expect(verdictOf(failed('agent_timeout'), seen({ last: 'budget' }))).toMatchObject({ class: 'agent_timeout' })
  expect(verdictOf(failed('agent_exit'), seen({ last: 'calls' }))).toMatchObject({ class: 'limit' })
})

test('a refusal is a failure of its own kind, and no excuse for a pass', () => {
  expect(verdictOf(failed(), seen({ refusals: 1 }))).toMatchObject({ state: 'failed', class: 'refusal' })
  expect(verdictOf(passed, seen({ refusals: 1 }))).toMatchObject({ state: 'passed', class: 'verified' })
})

test('a sandbox that broke is not made better by its model', () => {
  const broken = { state: 'errored', class: 'sandbox_error', error: 'It broke.' } as const
  expect(verdictOf(broken, seen({ succeeded: 0 }))).toEqual({ kind: 'judged', ...broken })
})

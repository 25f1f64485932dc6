import { expect, test } from 'vitest'
import type { OutcomeClass } from '../trials/record.ts'
import type { FailureKind, Refusal } from './ledger.ts'
import { computeTotals, type GrantTotals } from './totals.ts'
import { applyVerdict, decideVerdict } from './verdict.ts'

const NOTHING = computeTotals({
  grant: {} as never,
  spentMicros: 0,
  refusals: {},
  lastRefusal: null,
  closedAt: null,
  calls: [],
})

type LedgerFacts = {
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
}: LedgerFacts): GrantTotals => ({
  ...NOTHING,
  gatewayGone,
  calls: { ...NOTHING.calls, succeeded, cut },
  modelRefusals: refusals,
  lastFailure: last ? { status: status ?? null, kind: last, at: new Date(0), isRecovered } : null,
})

const passed = { state: 'passed', class: 'verified', error: null } as const
const failed = (word: OutcomeClass = 'verified') => ({ state: 'failed', class: word, error: null }) as const

test('the verifier decides if the provider answered', () => {
  expect(decideVerdict(passed, seen({}))).toEqual({ kind: 'judged', ...passed })
  expect(decideVerdict(failed('agent_exit'), seen({}))).toEqual({ kind: 'judged', ...failed('agent_exit') })
  expect(decideVerdict(passed, seen({ last: 'rate', isRecovered: true }))).toEqual({ kind: 'judged', ...passed })
})

test('a rejected key stops the comparison, also after earlier successes', () => {
  expect(decideVerdict(failed(), seen({ succeeded: 0, last: 'credential' })).kind).toBe('stopped')
  expect(decideVerdict(passed, seen({ succeeded: 5, last: 'credential' })).kind).toBe('stopped')
})

test.each<[LedgerFacts, string]>([
  [{ last: 'rate' }, 'provider_error'],
  [{ last: 'upstream' }, 'provider_error'],
  [{ cut: 1 }, 'provider_error'],
  [{ last: 'model', status: 404 }, 'operator_error'],
  [{ last: 'price' }, 'operator_error'],
])('a proven outage without any answer is not scored: %j', (what, word) => {
  for (const record of [passed, failed('agent_timeout')]) {
    expect(decideVerdict(record, seen({ ...what, succeeded: 0 }))).toMatchObject({ state: 'errored', class: word })
  }
})

test.each<[LedgerFacts, string]>([
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
    const verdict = decideVerdict(record, seen({ ...what, succeeded: 0 }))
    expect(verdict).toMatchObject({ kind: 'judged', state: 'failed', class: word, error: expect.any(String) })
    if (verdict.kind !== 'judged') continue
    expect(applyVerdict({ ...record, reward: 1, rewards: { reward: 1 } }, verdict).state).toBe('failed')
  }
  const verdict = decideVerdict(passed, seen({ ...what, succeeded: 0 }))
  if (verdict.kind === 'judged')
    expect(applyVerdict({ ...passed, reward: 1, rewards: { reward: 1 } }, verdict)).toMatchObject({ reward: 0 })
})

test('an outage in the middle excludes passes and failures alike', () => {
  for (const record of [passed, failed('agent_exit')]) {
    expect(decideVerdict(record, seen({ succeeded: 9, last: 'upstream' }))).toMatchObject({
      state: 'errored',
      class: 'provider_error',
    })
  }
})

test('a dead gateway excludes passes and failures alike', () => {
  for (const record of [passed, failed('agent_exit')])
    for (const last of ['request', 'budget'] as const)
      expect(decideVerdict(record, seen({ last, gatewayGone: true }))).toMatchObject({ class: 'provider_error' })
})

test('a trial that exhausts its own budget is scored as it stands', () => {
  expect(decideVerdict(passed, seen({ last: 'budget' }))).toMatchObject({ state: 'passed', class: 'budget_stop' })
  expect(decideVerdict(failed('agent_exit'), seen({ last: 'budget' }))).toMatchObject({ class: 'budget_stop' })
  expect(decideVerdict(failed('agent_timeout'), seen({ last: 'budget' }))).toMatchObject({ class: 'agent_timeout' })
  expect(decideVerdict(failed('agent_exit'), seen({ last: 'calls' }))).toMatchObject({ class: 'limit' })
})

test('a failed trial after a model refusal has class refusal; a pass stays a pass', () => {
  expect(decideVerdict(failed(), seen({ refusals: 1 }))).toMatchObject({ state: 'failed', class: 'refusal' })
  expect(decideVerdict(passed, seen({ refusals: 1 }))).toMatchObject({ state: 'passed', class: 'verified' })
})

test('a sandbox error keeps its class', () => {
  const broken = { state: 'errored', class: 'sandbox_error', error: 'It broke.' } as const
  expect(decideVerdict(broken, seen({ succeeded: 0 }))).toEqual({ kind: 'judged', ...broken })
})

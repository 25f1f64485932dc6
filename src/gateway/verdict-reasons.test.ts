import { describe, expect, test } from 'vitest'
import type { TrialClass } from '../trials/record.ts'
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
type Kind = NonNullable<GrantTotals['lastFailure']>['kind']

/** The ledger of a trial whose last call failed in this way. Null: no call failed. */
const ledger = (last: Kind | null, calls: Partial<GrantTotals['calls']> = { succeeded: 1 }): GrantTotals => ({
  ...NOTHING,
  calls: { ...NOTHING.calls, ...calls },
  lastFailure: last && { status: null, kind: last, at: new Date(0), isRecovered: false },
})
const PASSED = { state: 'passed', class: 'verified', error: null } as const
const failed = (word: TrialClass) => ({ state: 'failed', class: word, error: null }) as const
const ERRORED = { state: 'errored', class: 'sandbox_error', error: 'The sandbox broke.' } as const

test.each(['rate', 'upstream', 'crowded'] as const)('an unanswered trial is not scored after `%s`', (kind) => {
  for (const isLast of [false, true])
    expect(verdictOf(PASSED, ledger(kind, {}), { isLast })).toEqual({
      kind: 'judged',
      state: 'errored',
      class: 'provider_error',
      error: 'The provider never gave a whole answer.',
    })
})

test.each([{ cut: 1 }, { lost: 1 }, { cut: 1, lost: 1 }])(
  'an unanswered trial with the calls %j is not scored',
  (calls) => {
    expect(verdictOf(PASSED, ledger(null, calls))).toMatchObject({ state: 'errored', class: 'provider_error' })
  },
)

/** Failures that a program can cause, with what an operator is told about a trial that got no answer. */
const OWN_FAILURES: [kind: Kind, error: RegExp][] = [
  ['gateway', /gateway died/],
  ['busy', /too much at once/],
  ['model', /no such model/],
  ['request', /fault with what the program asked/],
  ['closed', /after its time/],
  ['expired', /after its time/],
  ['hosted', /outside of the sandbox/],
  ['surcharge', /a price of its own/],
  ['token', /token/],
  ['size', /too large/],
  ['malformed', /no request/],
  ['path', /does not have/],
]

test.each(OWN_FAILURES)('an unanswered trial fails after `%s`, which the program can cause', (kind, message) => {
  const error = expect.stringMatching(message)
  expect(verdictOf(PASSED, ledger(kind, {}))).toEqual({ kind: 'judged', state: 'failed', class: 'verified', error })
  expect(verdictOf(failed('agent_exit'), ledger(kind, {}))).toMatchObject({ state: 'failed', class: 'agent_exit' })
})

test.each<[kind: Kind | null, word: string, error: RegExp]>([
  [null, 'verified', /never asked its model/],
  ['budget', 'budget_stop', /budget is too small/],
  ['calls', 'limit', /no call/],
])('an unanswered trial fails after `%s` as %s', (kind, word, message) => {
  const error = expect.stringMatching(message)
  expect(verdictOf(PASSED, ledger(kind, { failed: 2 }))).toEqual({
    kind: 'judged',
    state: 'failed',
    class: word,
    error,
  })
})

test('an unanswered trial is not scored when its model has no price or the provider does not know it', () => {
  const price = verdictOf(PASSED, ledger('price', {}))
  const error = expect.stringMatching(/what the model costs/)
  expect(price).toEqual({ kind: 'judged', state: 'errored', class: 'operator_error', error })
  const unknown = { status: 404, kind: 'model' as const, at: new Date(0), isRecovered: false }
  const verdict = verdictOf(PASSED, { ...ledger(null, {}), lastFailure: unknown })
  expect(verdict).toMatchObject({ state: 'errored', class: 'operator_error' })
  const rejected = verdictOf(PASSED, { ...ledger(null, {}), lastFailure: { ...unknown, kind: 'request', status: 400 } })
  expect(rejected).toMatchObject({ state: 'failed' })
})

test('a trial that the budget of the comparison cut off runs again later', () => {
  const stopped = { kind: 'stopped', reason: 'budget', message: expect.stringMatching(/budget of the comparison/) }
  for (const record of [PASSED, failed('agent_exit'), ERRORED]) {
    expect(verdictOf(record, ledger('shared_budget'))).toEqual(stopped)
    expect(verdictOf(record, { ...ledger(null), cutBy: 'shared_budget' })).toEqual(stopped)
  }
})

test('a trial that its own budget cut off is a budget stop, also when its last call succeeded', () => {
  const cut = { ...ledger(null), cutBy: 'budget' as const }
  expect(verdictOf(PASSED, cut)).toEqual({ kind: 'judged', state: 'passed', class: 'budget_stop', error: null })
  expect(verdictOf(failed('agent_timeout'), cut)).toMatchObject({ class: 'agent_timeout' })
})

describe('the record of a trial', () => {
  const record = { ...PASSED, reward: 1, rewards: { reward: 1, style: 1 } }

  test('keeps its reward when the verdict agrees', () => {
    expect(applyVerdict(record, { ...PASSED, class: 'budget_stop' })).toEqual({ ...record, class: 'budget_stop' })
    const partial = { ...failed('verified'), reward: 0.5, rewards: { reward: 0.5 } }
    expect(applyVerdict(partial, failed('agent_exit'))).toEqual({ ...partial, class: 'agent_exit' })
  })

  test('loses a pass that does not stand, and every reward when it is not scored', () => {
    expect(applyVerdict(record, failed('verified'))).toMatchObject({
      state: 'failed',
      reward: 0,
      rewards: { reward: 0 },
    })
    const errored = applyVerdict(record, ERRORED)
    expect(errored).toEqual({ ...ERRORED, reward: null, rewards: {} })
  })
})

describe('a trial that got answers', () => {
  test.each<Kind>([
    ...(['gateway', 'busy', 'model', 'request', 'closed', 'expired', 'price', 'hosted'] as const),
    ...(['surcharge', 'token', 'size', 'malformed', 'path'] as const),
  ])('is scored as the verifier says after `%s`', (kind) => {
    expect(verdictOf(PASSED, ledger(kind))).toEqual({ kind: 'judged', ...PASSED })
    expect(verdictOf(failed('agent_exit'), ledger(kind))).toEqual({ kind: 'judged', ...failed('agent_exit') })
  })

  test.each(['rate', 'upstream'] as const)('is not scored when its last call ended with `%s`', (kind) => {
    for (const isLast of [false, true])
      expect(verdictOf(PASSED, ledger(kind), { isLast })).toEqual({
        kind: 'judged',
        state: 'errored',
        class: 'provider_error',
        error: `The provider gave up: ${kind}.`,
      })
  })

  test('is tried again when the provider may have been crowded by others, and scored on the last attempt', () => {
    const crowded = {
      kind: 'judged',
      state: 'errored',
      class: 'provider_error',
      error: 'The provider gave up: crowded.',
    }
    expect(verdictOf(PASSED, ledger('crowded'))).toEqual(crowded)
    expect(verdictOf(PASSED, ledger('crowded'), { isLast: false })).toEqual(crowded)
    expect(verdictOf(PASSED, ledger('crowded'), { isLast: true })).toEqual({ kind: 'judged', ...PASSED })
  })

  test('is not scored after the gateway died', () => {
    expect(verdictOf(PASSED, { ...ledger(null), gatewayGone: true })).toMatchObject({
      state: 'errored',
      class: 'provider_error',
      error: expect.stringMatching(/gateway died/),
    })
  })

  test('keeps the class of an agent that was stopped, whatever its budget or its model did', () => {
    for (const word of ['agent_timeout', 'limit'] as const) {
      expect(verdictOf(failed(word), ledger('budget'))).toMatchObject({ class: word })
      expect(verdictOf(failed(word), ledger('calls'))).toMatchObject({ class: word })
      expect(verdictOf(failed(word), { ...ledger(null), modelRefusals: 1 })).toMatchObject({ class: word })
    }
  })

  test('is a refusal when it failed after the model declined, and not without', () => {
    for (const [refusals, word] of [
      [0, 'agent_exit'],
      [1, 'refusal'],
      [2, 'refusal'],
    ] as const)
      expect(verdictOf(failed('agent_exit'), { ...ledger(null), modelRefusals: refusals })).toMatchObject({
        state: 'failed',
        class: word,
      })
  })
})

test('a rejected key stops the comparison even when the sandbox broke', () => {
  const stopped = { kind: 'stopped', reason: 'credential', message: 'The provider did not take the key.' }
  for (const record of [PASSED, failed('verified'), ERRORED])
    for (const calls of [{}, { succeeded: 1 }])
      expect(verdictOf(record, ledger('credential', calls))).toMatchObject(stopped)
})

test('a rejected key that was accepted later stops nothing', () => {
  const recovered = { status: 401, kind: 'credential' as const, at: new Date(0), isRecovered: true }
  expect(verdictOf(PASSED, { ...ledger(null), lastFailure: recovered })).toEqual({ kind: 'judged', ...PASSED })
})

test('a trial that broke in its sandbox keeps its own error, whatever the provider did', () => {
  for (const kind of ['upstream', 'request'] as const)
    for (const gatewayGone of [true, false])
      expect(verdictOf(ERRORED, { ...ledger(kind), gatewayGone })).toEqual({ kind: 'judged', ...ERRORED })
})

import { describe, expect, test } from 'vitest'
import type { OutcomeClass } from '../trials/record.ts'
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
type FailureKind = NonNullable<GrantTotals['lastFailure']>['kind']

/** The ledger of a trial whose last call failed in this way. Null: no call failed. */
const ledger = (last: FailureKind | null, calls: Partial<GrantTotals['calls']> = { succeeded: 1 }): GrantTotals => ({
  ...NOTHING,
  calls: { ...NOTHING.calls, ...calls },
  lastFailure: last && { status: null, kind: last, at: new Date(0), isRecovered: false },
})
const PASSED = { state: 'passed', class: 'verified', error: null } as const
const failed = (word: OutcomeClass) => ({ state: 'failed', class: word, error: null }) as const
const ERRORED = { state: 'errored', class: 'sandbox_error', error: 'The sandbox broke.' } as const

test.each(['rate', 'upstream'] as const)('an unanswered trial is not scored after `%s`', (kind) => {
  for (const isLastAttempt of [false, true])
    expect(decideVerdict(PASSED, ledger(kind, {}), { isLastAttempt })).toEqual({
      kind: 'judged',
      state: 'errored',
      class: 'provider_error',
      error: 'The provider never returned a complete answer.',
    })
})

test.each(['crowded', 'interrupted'] as const)(
  'an unanswered trial is retried after `%s`, which the program can cause, and fails on the last attempt',
  (kind) => {
    const error = expect.any(String)
    const excluded = { kind: 'judged', state: 'errored', class: 'provider_error', error }
    expect(decideVerdict(PASSED, ledger(kind, {}))).toEqual(excluded)
    expect(decideVerdict(PASSED, ledger(kind, {}), { isLastAttempt: false })).toEqual(excluded)
    const scored = { kind: 'judged', state: 'failed', class: 'verified', error }
    expect(decideVerdict(PASSED, ledger(kind, {}), { isLastAttempt: true })).toEqual(scored)
  },
)

test.each([{ cut: 1 }, { lost: 1 }, { cut: 1, lost: 1 }])(
  'an unanswered trial with the calls %j is not scored',
  (calls) => {
    expect(decideVerdict(PASSED, ledger(null, calls))).toMatchObject({ state: 'errored', class: 'provider_error' })
  },
)

/** Failures that a program can cause, with what an operator is told about a trial that got no answer. */
const OWN_FAILURES: [kind: FailureKind, error: RegExp][] = [
  ['gateway', /gateway failed/],
  ['busy', /concurrent calls/],
  ['model', /does not have this model/],
  ['request', /rejected the request/],
  ['closed', /after its trial had ended/],
  ['expired', /after its trial had ended/],
  ['hosted', /outside the sandbox/],
  ['surcharge', /billed separately/],
  ['token', /token/],
  ['size', /too large/],
  ['malformed', /invalid request/],
  ['path', /unknown path/],
]

test.each(OWN_FAILURES)('an unanswered trial fails after `%s`, which the program can cause', (kind, message) => {
  const error = expect.stringMatching(message)
  expect(decideVerdict(PASSED, ledger(kind, {}))).toEqual({ kind: 'judged', state: 'failed', class: 'verified', error })
  expect(decideVerdict(failed('agent_exit'), ledger(kind, {}))).toMatchObject({ state: 'failed', class: 'agent_exit' })
})

test.each<[kind: FailureKind | null, word: string, error: RegExp]>([
  [null, 'verified', /never called its model/],
  ['budget', 'budget_stop', /budget is too small/],
  ['calls', 'limit', /all of its calls/],
])('an unanswered trial fails after `%s` as %s', (kind, word, message) => {
  const error = expect.stringMatching(message)
  expect(decideVerdict(PASSED, ledger(kind, { failed: 2 }))).toEqual({
    kind: 'judged',
    state: 'failed',
    class: word,
    error,
  })
})

test('an unanswered trial is not scored when its model has no price or the provider does not know it', () => {
  const price = decideVerdict(PASSED, ledger('price', {}))
  const error = expect.stringMatching(/price of the model is unknown/)
  expect(price).toEqual({ kind: 'judged', state: 'errored', class: 'operator_error', error })
  const unknown = { status: 404, kind: 'model' as const, at: new Date(0), isRecovered: false }
  const verdict = decideVerdict(PASSED, { ...ledger(null, {}), lastFailure: unknown })
  expect(verdict).toMatchObject({ state: 'errored', class: 'operator_error' })
  const rejected = decideVerdict(PASSED, {
    ...ledger(null, {}),
    lastFailure: { ...unknown, kind: 'request', status: 400 },
  })
  expect(rejected).toMatchObject({ state: 'failed' })
})

test('a trial that the budget of the comparison cut off runs again later', () => {
  const stopped = { kind: 'stopped', reason: 'budget', message: expect.stringMatching(/budget of the comparison/) }
  for (const record of [PASSED, failed('agent_exit'), ERRORED]) {
    expect(decideVerdict(record, ledger('shared_budget'))).toEqual(stopped)
    expect(decideVerdict(record, { ...ledger(null), cutBy: 'shared_budget' })).toEqual(stopped)
  }
})

test('a trial that its own budget cut off is a budget stop, also when its last call succeeded', () => {
  const cut = { ...ledger(null), cutBy: 'budget' as const }
  expect(decideVerdict(PASSED, cut)).toEqual({ kind: 'judged', state: 'passed', class: 'budget_stop', error: null })
  expect(decideVerdict(failed('agent_timeout'), cut)).toMatchObject({ class: 'agent_timeout' })
})

describe('the record of a trial', () => {
  const record = { ...PASSED, reward: 1, rewards: { reward: 1, style: 1 } }

  test('keeps its reward when the verdict agrees', () => {
    expect(applyVerdict(record, { ...PASSED, class: 'budget_stop' })).toEqual({ ...record, class: 'budget_stop' })
    const partial = { ...failed('verified'), reward: 0.5, rewards: { reward: 0.5 } }
    expect(applyVerdict(partial, failed('agent_exit'))).toEqual({ ...partial, class: 'agent_exit' })
  })

  test('loses an overturned pass, and every reward if it is not scored', () => {
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
  test.each<FailureKind>([
    ...(['gateway', 'busy', 'model', 'request', 'closed', 'expired', 'price', 'hosted'] as const),
    ...(['surcharge', 'token', 'size', 'malformed', 'path'] as const),
  ])('is scored as the verifier says after `%s`', (kind) => {
    expect(decideVerdict(PASSED, ledger(kind))).toEqual({ kind: 'judged', ...PASSED })
    expect(decideVerdict(failed('agent_exit'), ledger(kind))).toEqual({ kind: 'judged', ...failed('agent_exit') })
  })

  test.each(['rate', 'upstream'] as const)('is not scored when its last call ended with `%s`', (kind) => {
    for (const isLastAttempt of [false, true])
      expect(decideVerdict(PASSED, ledger(kind), { isLastAttempt })).toEqual({
        kind: 'judged',
        state: 'errored',
        class: 'provider_error',
        error: `The provider failed: ${kind}.`,
      })
  })

  test('is retried after `crowded`, and scored on the last attempt', () => {
    const crowded = {
      kind: 'judged',
      state: 'errored',
      class: 'provider_error',
      error: 'The provider failed: crowded.',
    }
    expect(decideVerdict(PASSED, ledger('crowded'))).toEqual(crowded)
    expect(decideVerdict(PASSED, ledger('crowded'), { isLastAttempt: false })).toEqual(crowded)
    expect(decideVerdict(PASSED, ledger('crowded'), { isLastAttempt: true })).toEqual({ kind: 'judged', ...PASSED })
  })

  test('is not scored after the gateway died', () => {
    expect(decideVerdict(PASSED, { ...ledger(null), gatewayGone: true })).toMatchObject({
      state: 'errored',
      class: 'provider_error',
      error: expect.stringMatching(/gateway failed/),
    })
  })

  test('keeps the class of an agent that was stopped, whatever its budget or its model did', () => {
    for (const word of ['agent_timeout', 'limit'] as const) {
      expect(decideVerdict(failed(word), ledger('budget'))).toMatchObject({ class: word })
      expect(decideVerdict(failed(word), ledger('calls'))).toMatchObject({ class: word })
      expect(decideVerdict(failed(word), { ...ledger(null), modelRefusals: 1 })).toMatchObject({ class: word })
    }
  })

  test('is a refusal only if it failed after the model declined', () => {
    for (const [refusals, word] of [
      [0, 'agent_exit'],
      [1, 'refusal'],
      [2, 'refusal'],
    ] as const)
      expect(decideVerdict(failed('agent_exit'), { ...ledger(null), modelRefusals: refusals })).toMatchObject({
        state: 'failed',
        class: word,
      })
  })
})

test('a rejected key stops the comparison even when the sandbox broke', () => {
  const stopped = { kind: 'stopped', reason: 'credential', message: 'The provider rejected the key.' }
  for (const record of [PASSED, failed('verified'), ERRORED])
    for (const calls of [{}, { succeeded: 1 }])
      expect(decideVerdict(record, ledger('credential', calls))).toMatchObject(stopped)
})

test("the provider's own message explains a stop and an exclusion", () => {
  const totals = (kind: FailureKind): GrantTotals => ({
    ...ledger(kind),
    lastFailure: { status: 503, kind, at: new Date(0), isRecovered: false, message: 'Out of order' },
  })
  expect(decideVerdict(PASSED, totals('credential'))).toMatchObject({
    kind: 'stopped',
    message: expect.stringContaining('Out of order'),
  })
  expect(decideVerdict(PASSED, totals('upstream'))).toMatchObject({
    class: 'provider_error',
    error: expect.stringContaining('Out of order'),
  })
})

test('a rejected key that was accepted later stops nothing', () => {
  const recovered = { status: 401, kind: 'credential' as const, at: new Date(0), isRecovered: true }
  expect(decideVerdict(PASSED, { ...ledger(null), lastFailure: recovered })).toEqual({ kind: 'judged', ...PASSED })
})

test('a trial that broke in its sandbox keeps its own error, whatever the provider did', () => {
  for (const kind of ['upstream', 'request'] as const)
    for (const gatewayGone of [true, false])
      expect(decideVerdict(ERRORED, { ...ledger(kind), gatewayGone })).toEqual({ kind: 'judged', ...ERRORED })
})

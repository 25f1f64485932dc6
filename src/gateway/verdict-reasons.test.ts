import { describe, expect, test } from 'vitest'
import type { TrialClass } from '../trials/record.ts'
import { type GrantTotals, totals } from './totals.ts'
import { verdictOf } from './verdict.ts'

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
  const stopped = { kind: 'stopped', message: 'The provider did not take the key.' }
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

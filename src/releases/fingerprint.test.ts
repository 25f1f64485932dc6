import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { type Result, resultsOf } from './aggregate.ts'
import { canonicalJson, type Json } from './canonical-json.ts'
import { contentHash, fingerprint } from './fingerprint.ts'
import { setting, TASKS, trial } from './testing/made-up.ts'

const USAGE = { input: 1, cacheRead: 2, cacheWrite: 3, output: 4, reasoning: 5 }
const SETTINGS = ['b|y|high', 'a|x|low', 'c|z|none']
const all = SETTINGS.slice(0, 2).flatMap((id) => ['t2', 't1'].map((task) => trial({ setting: id, task, usage: USAGE })))
const results = () =>
  resultsOf(
    SETTINGS.map((id) => setting(id)),
    all,
    new Set(TASKS),
  )
const sha256 = (value: Json): string => createHash('sha256').update(canonicalJson(value)).digest('hex')

/** Everything that is published of a result. */
const published = (result: Result): Json => ({
  id: result.id,
  model: result.model,
  harness: result.harness,
  reasoningLevel: result.reasoningLevel,
  provider: result.provider,
  custom: result.custom,
  isolation: result.isolation,
  cohort: result.cohort,
  errored: result.errored,
  voided: result.voided,
  reason: result.reason ?? null,
  results: result.cells.map(({ task, passed, costMicros, costSource, trials, passes, usage }) => [
    ...[task, passed, costMicros, costSource, trials, passes],
    usage && [usage.input, usage.cacheRead, usage.cacheWrite, usage.output, usage.reasoning],
  ]),
})

test('a fingerprint is the SHA-256 of the canonical JSON of settings, tasks and a version', () => {
  const settings = results().map(published)
  expect(fingerprint(results(), TASKS)).toBe(sha256({ settings, tasks: TASKS, version: 1 }))
  expect(contentHash(results())).toBe(sha256({ settings, tasks: ['t1', 't2'], version: 1 }))
  expect(fingerprint([], [])).toBe(sha256({ settings: [], tasks: [], version: 1 }))
})

test('neither the order of settings nor that of approved tasks matters', () => {
  const [a, b, c] = results() as [Result, Result, Result]
  for (const order of [
    [a, b, c],
    [c, b, a],
    [b, a, c],
    [b, c, a],
  ]) {
    expect(fingerprint(order, TASKS.toReversed())).toBe(fingerprint(results(), TASKS))
    expect(contentHash(order)).toBe(contentHash(results()))
  }
})

test('the same result has the same text each time it is asked for', () => {
  const found = results()
  expect(fingerprint(found, TASKS)).toBe(fingerprint(found, TASKS))
})

import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { setting, TASKS, trial } from '../../test/support/releases/arbitrary-trials.ts'
import { buildResults, type SettingResult } from './aggregate.ts'
import { type CanonicalJson, canonicalJson, computeContentHash, computeFingerprint } from './fingerprint.ts'

const USAGE = { input: 1, cacheRead: 2, cacheWrite: 3, output: 4, reasoning: 5 }
const SETTINGS = ['b|y|high', 'a|x|low', 'c|z|none']
const all = SETTINGS.slice(0, 2).flatMap((id) => ['t2', 't1'].map((task) => trial({ setting: id, task, usage: USAGE })))
const results = () =>
  buildResults(
    SETTINGS.map((id) => setting(id)),
    all,
    new Set(TASKS),
  )
const sha256 = (value: CanonicalJson): string => createHash('sha256').update(canonicalJson(value)).digest('hex')

/** Everything that is published of a result. */
const published = (result: SettingResult): CanonicalJson => ({
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
  expect(computeFingerprint(results(), TASKS)).toBe(sha256({ settings, tasks: TASKS, version: 1 }))
  expect(computeContentHash(results())).toBe(sha256({ settings, tasks: ['t1', 't2'], version: 1 }))
  expect(computeFingerprint([], [])).toBe(sha256({ settings: [], tasks: [], version: 1 }))
})

test('the fingerprint is independent of the order of settings and approved tasks', () => {
  const [a, b, c] = results() as [SettingResult, SettingResult, SettingResult]
  for (const order of [
    [a, b, c],
    [c, b, a],
    [b, a, c],
    [b, c, a],
  ]) {
    expect(computeFingerprint(order, TASKS.toReversed())).toBe(computeFingerprint(results(), TASKS))
    expect(computeContentHash(order)).toBe(computeContentHash(results()))
  }
})

test('the canonical text of a result is stable', () => {
  const found = results()
  expect(computeFingerprint(found, TASKS)).toBe(computeFingerprint(found, TASKS))
})

test('the digest of a configuration is part of the fingerprint, and without one nothing changes', () => {
  const [first, ...others] = results() as [SettingResult, ...SettingResult[]]
  const fingerprint = (configuration: SettingResult['configuration']) =>
    computeFingerprint([{ ...first, configuration }, ...others], TASKS)
  expect(fingerprint(undefined)).toBe(computeFingerprint(results(), TASKS))
  const digests = ['sha256:1', 'sha256:2'].map((digest) => fingerprint({ name: 'rules', version: 1, digest }))
  expect(new Set([...digests, fingerprint(undefined)]).size).toBe(3)
})

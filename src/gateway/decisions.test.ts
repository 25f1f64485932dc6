import { describe, expect, test } from 'vitest'
import { TERMS } from '../../test/support/gateway/gateway.ts'
import { buildTargetUrl } from '../credentials/providers.ts'
import type { AuxiliaryModelRule } from '../harnesses/harness.ts'
import { hasDuplicates, measureJson } from '../platform/untrusted-json.ts'
import { checkRequest } from './check-request.ts'
import { classifyConcurrency, classifyFailure } from './failure-causes.ts'
import { buildUpstreamHeaders, buildUpstreamQuery, filterResponseHeaders } from './headers.ts'
import { wireProtocols } from './protocols.ts'

import { computeCoveredOutput, computeReservationBounds, computeReservationMicros } from './reservation.ts'
import { computeRetryPauseMs } from './retry-policy.ts'
import { settleAnswer, settleSilent } from './settlement.ts'
import { NO_USAGE, type Usage } from './wire-protocol.ts'

describe('the pause before a retry', () => {
  const options = { triesMax: 4, totalMs: 60_000, firstMs: 1000, pauseMaxMs: 20_000, quietMs: 30_000 }
  const now = Date.parse('2026-11-15T10:00:00Z')
  const failed = { status: 500, tries: 1, elapsedMs: 0, headers: {}, now, random: 1 }

  test.each<[string, Partial<typeof failed>, number | undefined]>([
    ['at first', {}, 1000],
    ['half of it by chance', { random: 0 }, 500],
    ['twice as long the next time', { tries: 2 }, 2000],
    ['not after the last', { tries: 4 }, undefined],
    ['not when it takes too long over all', { elapsedMs: 59_500 }, undefined],
    ['as many seconds as were asked for', { headers: { 'retry-after': '7' } }, 7000],
    ['at once, when asked', { headers: { 'retry-after': '0' } }, 0],
    ['until a date', { headers: { 'retry-after': 'Sun, 15 Nov 2026 10:00:05 GMT' } }, 5000],
    ['a date that has passed', { headers: { 'retry-after': 'Sun, 15 Nov 2026 09:00:00 GMT' } }, 0],
    ['in milliseconds', { headers: { 'retry-after-ms': '12', 'retry-after': '7' } }, 12],
    ['longer than allowed: none', { headers: { 'retry-after': '21' } }, undefined],
    ['before the last of one too many: until a while has passed', { status: 429, tries: 3, elapsedMs: 3000 }, 27_000],
    ['before the last of a breakdown: as ever', { tries: 3 }, 4000],
    ['nonsense counts as unsaid', { headers: { 'retry-after': 'soon' } }, 1000],
    ['a negative number too', { headers: { 'retry-after-ms': '-5' } }, 1000],
  ])('%s', (_, changes, expected) => {
    expect(computeRetryPauseMs(options, { ...failed, ...changes })).toBe(expected)
  })
})

describe('concurrency of a grant', () => {
  const at = (ms: number) => new Date(1_000_000 + ms)
  const own = { id: 'own', startedAt: at(0), settledAt: null }
  const other = (from: number, to: number | null) => ({
    id: `${from}`,
    startedAt: at(from),
    settledAt: to === null ? null : at(to),
  })
  test.each<[string, ReturnType<typeof other>[], string]>([
    ['nothing else', [], 'alone'],
    ['something that ended long before', [other(-5000, -1)], 'alone'],
    ['something that ended a moment ago', [other(-5000, 41_000)], 'busy'],
    ['something that goes on', [other(-5000, null)], 'busy'],
    ['eight with it', Array.from({ length: 7 }, (_, n) => other(n, null)), 'busy'],
    ['nine with it', Array.from({ length: 8 }, (_, n) => other(n, null)), 'flooding'],
    ['many, one after another', Array.from({ length: 50 }, (_, n) => other(n * 1000, n * 1000 + 1000)), 'busy'],
    ['a flood that is long over', Array.from({ length: 50 }, (_, n) => other(-n - 10, -1)), 'alone'],
  ])('%s: %s', (_, calls, expected) => {
    expect(classifyConcurrency([own, ...calls], { id: 'own', elapsedMs: 100_000 }, 60_000)).toBe(expected)
  })
})

test.each([
  ['https://api.example', '/v1/messages', 'https://api.example/v1/messages'],
  ['https://api.example/', '/v1/messages', 'https://api.example/v1/messages'],
  ['https://api.example/v1', '/v1/chat/completions', 'https://api.example/v1/chat/completions'],
  ['https://api.example/api/v1/', '/v1/responses', 'https://api.example/api/v1/responses'],
  ['https://api.example/api/paas/v4', '/v1/chat/completions', 'https://api.example/api/paas/v4/chat/completions'],
  ['https://api.example/v1beta/openai', '/v1/chat/completions', 'https://api.example/v1beta/openai/chat/completions'],
  ['https://api.example/anthropic', '/v1/messages', 'https://api.example/anthropic/v1/messages'],
  ['https://api.example', '/v1beta/models/m:countTokens', 'https://api.example/v1beta/models/m:countTokens'],
])('under %s the path %s is %s', (base, path, url) => {
  expect(buildTargetUrl(base, path)).toBe(url)
})

describe('mapped auxiliary models', () => {
  const rules: AuxiliaryModelRule[] = [
    { name: 'a-*-z', rule: 'pin' },
    { name: 'b*c*d*', rule: 'pin' },
    { name: 'exact', rule: 'pin' },
    { name: 'no-*', rule: 'refuse' },
    { name: 'no-way', rule: 'pin' },
  ]
  test.each<[string, boolean]>([
    ['a-m-z', true],
    ['a--z', true],
    ['a-z', false],
    ['a-m-zz', false],
    ['bcd', true],
    ['b1c2d3', true],
    ['bdc', false],
    ['exact', true],
    ['exactly', false],
    ['no-way', false],
    ['', false],
  ])('%s: %s', (model, isPinned) => {
    const wire = wireProtocols['openai-chat']
    const judged = checkRequest({ ...TERMS, helpers: rules }, wire, { kind: 'generate', model: null }, { model })
    expect(judged.kind === 'accepted').toBe(isPinned)
  })
})

test('a reservation covers the highest input price and all of the output', () => {
  const prices = { input: 3, output: 15, cacheWrite5m: 3.75, cacheWrite1h: 6 }
  expect(computeReservationMicros(prices, { input: 100, output: 10, hasLongCache: true })).toBe(100 * 6 + 10 * 15)
  expect(computeReservationMicros({ input: 3, output: 15 }, { input: 100, output: 10, hasLongCache: true })).toBe(
    100 * 6 + 10 * 15,
  )
  expect(
    computeReservationMicros({ input: 3, output: 'free?' }, { input: 100, output: 10, hasLongCache: true }),
  ).toBeNull()
  const tiers = [{ aboveInputTokens: 50, input: 30, output: 150 }]
  expect(computeReservationMicros({ ...prices, tiers }, { input: 100, output: 10, hasLongCache: true })).toBe(
    100 * 60 + 10 * 150,
  )
  expect(computeReservationMicros(prices, { input: 100, output: 10, hasLongCache: false })).toBe(100 * 3.75 + 10 * 15)
  const dearReads = { input: 3, output: 15, cacheRead: 4 }
  expect(computeReservationMicros(dearReads, { input: 100, output: 10, hasLongCache: false })).toBe(100 * 4 + 10 * 15)
})

describe('the bounds of a reservation', () => {
  const prices = { input: 1, output: 10 }
  const tokens = {
    input: 1000,
    output: 128_000,
    reasoning: 0,
    alternatives: 1,
    canLimitOutput: true,
    hasLongCache: false,
  }
  const micros = (output: number) => 1000 + output * 10

  test('range from a useful answer to the longest one', () => {
    expect(computeReservationBounds(prices, tokens)).toEqual({
      mostMicros: micros(128_000),
      usualMicros: micros(32_000),
      leastMicros: micros(256),
    })
  })
  test('leave room for an answer after the reasoning that the request sets aside', () => {
    const { leastMicros, usualMicros } = computeReservationBounds(prices, { ...tokens, reasoning: 64_000 }) ?? {}
    expect([leastMicros, usualMicros]).toEqual([micros(64_256), micros(96_000)])
  })
  test('are never above what the request itself allows', () => {
    expect(computeReservationBounds(prices, { ...tokens, output: 100, reasoning: 90 })).toEqual({
      mostMicros: micros(100),
      usualMicros: micros(100),
      leastMicros: micros(100),
    })
  })
  test('are equal if the output cannot be limited, and null without a price', () => {
    expect(computeReservationBounds(prices, { ...tokens, canLimitOutput: false })?.leastMicros).toBe(micros(128_000))
    expect(computeReservationBounds({ input: 1, output: 'free?' }, tokens)).toBeNull()
  })
  test.each([1, 3])('cover whole tokens of each of %i alternatives, to the last micro-dollar', (alternatives) => {
    const shared = { ...tokens, alternatives }
    for (const [reserved, output] of [
      [1000, 0],
      [1009, 0],
      [micros(300), Math.floor(300 / alternatives)],
      [micros(300) - 1, Math.floor(299 / alternatives)],
      [1e9, Math.floor(128_000 / alternatives)],
    ] as const)
      expect(computeCoveredOutput(prices, shared, reserved)).toBe(output)
  })
})

describe('the cost of a call', () => {
  const facts = {
    status: 200,
    tries: 1,
    clientLeft: false,
    firstByteMs: 1,
    totalMs: 2,
    bodies: null,
    outputLimit: null,
  }
  const produced = (textBytes: number, seen?: Usage) => ({ partial: { usage: seen, textBytes }, usage: undefined })
  const heard = {
    model: null,
    isRefusal: false,
    serviceTier: null,
    isStream: true,
    isComplete: true,
    error: null,
    attribution: null,
    isTruncated: false,
    firstTextAt: null,
    ...produced(0),
  }
  const estimate = {
    prices: TERMS.prices,
    reservedMicros: 1000,
    input: 100,
    inputReserved: 1000,
    inputSent: 1000,
    inputMax: 1000,
    outputMax: 20,
    limitedBy: null,
  }
  const usage = { ...NO_USAGE, input: 10, output: 2 }
  const OUTAGE = { failure: 'upstream', probeAnswer: null } as const

  test('is metered if the answer reports its usage, even if it is cut afterwards', () => {
    expect(settleAnswer(facts, { ...heard, usage, bytes: 9 }, estimate)).toMatchObject({
      costMicros: 60,
      costSource: 'metered',
    })
    const cut = settleAnswer(facts, { ...heard, usage, bytes: 9, attribution: OUTAGE }, estimate)
    expect(cut).toMatchObject({ outcome: 'cut', failure: 'upstream', costMicros: 60, costSource: 'metered' })
  })
  test('is otherwise estimated from the produced text, never above the reservation', () => {
    const small = settleAnswer(facts, { ...heard, ...produced(40), bytes: 9000 }, estimate)
    expect(small).toMatchObject({
      costMicros: 100 * 3 + 10 * 15,
      costSource: 'estimated',
      usage: { input: 100, output: 10 },
    })
    const large = settleAnswer(facts, { ...heard, ...produced(4e9), bytes: 9 }, { ...estimate, reservedMicros: 500 })
    expect(large).toMatchObject({ costMicros: 500, usage: { output: 20 } })
  })
  test('includes counts reported before a cut, and an estimate of hidden reasoning', () => {
    const seen = { ...NO_USAGE, input: 7, cacheRead: 50, output: 1 }
    const cut = { ...heard, ...produced(8, seen), bytes: 9, attribution: OUTAGE }
    expect(settleAnswer(facts, cut, estimate)).toMatchObject({
      costMicros: 7 * 3 + 15 + 2 * 15,
      usage: { input: 7, cacheRead: 50, output: 2 },
      costSource: 'estimated',
    })
    expect(settleAnswer(facts, { ...cut, textDelayMs: 5_200 }, estimate).usage.output).toBe(12)
    expect(settleSilent({ ...facts, totalMs: 5_200 }, estimate, OUTAGE).usage).toMatchObject({
      input: 100,
      output: 10,
    })
  })
  test.each(['budget', 'shared_budget'] as const)('records that the limit of the %s cut the answer', (limitedBy) => {
    const truncated = { ...heard, usage, bytes: 9, isTruncated: true }
    expect(settleAnswer(facts, truncated, { ...estimate, limitedBy })).toMatchObject({
      outcome: 'succeeded',
      failure: limitedBy,
    })
    expect(settleAnswer(facts, truncated, estimate).failure).toBeNull()
    expect(settleAnswer(facts, { ...truncated, isTruncated: false }, { ...estimate, limitedBy }).failure).toBeNull()
  })
  test('is unknown without a price, or in a tier without one', () => {
    const unpriced = { ...estimate, prices: null, reservedMicros: null }
    expect(settleSilent(facts, unpriced, OUTAGE)).toMatchObject({ costMicros: null, costSource: 'unknown' })
    expect(settleAnswer(facts, { ...heard, usage, bytes: 9 }, unpriced)).toMatchObject({
      costMicros: null,
      costSource: 'unknown',
    })
    const odd = settleAnswer(facts, { ...heard, usage, serviceTier: 'moon', bytes: 9 }, estimate)
    expect(odd).toMatchObject({ costMicros: null, costSource: 'unknown' })
  })
})

test.each<[number, string, string]>([
  [401, '', 'credential'],
  [429, '{"error":{"code":"insufficient_quota"}}', 'credential'],
  [429, 'slow down', 'rate'],
  [400, 'prompt is too long', 'request'],
  [404, '', 'model'],
  [529, 'your credit balance is too low', 'upstream'],
  [302, '', 'upstream'],
])('status %i with %s is a failure of kind %s', (status, body, kind) => {
  expect(classifyFailure(status, body)).toBe(kind)
})

test('only documented headers are forwarded, without hop-by-hop headers', () => {
  const sent = buildUpstreamHeaders(
    {
      'X-Stainless-Lang': 'js',
      'anthropic-version': '2023-06-01',
      'x-codex-turn': '1',
      connection: 'close, x-app',
      'x-app': '1',
      'proxy-authorization': 'Bearer listener',
      'x-forwarded-for': '10.0.0.1',
      'x-goog-user-project': 'rich',
      authorization: 'Bearer token',
      te: 'trailers',
      'anthropic-beta': ['interleaved-thinking-2025-05-14', 'effort-2025-11-24'],
    },
    wireProtocols['anthropic-messages'],
    'key',
  )
  expect(sent).toEqual({
    'x-stainless-lang': 'js',
    'content-type': 'application/json',
    'anthropic-version': '2023-06-01',
    'anthropic-beta': 'interleaved-thinking-2025-05-14,effort-2025-11-24',
    'accept-encoding': 'identity',
    'x-api-key': 'key',
  })
  const passed = filterResponseHeaders({
    'content-type': 'a',
    'set-cookie': ['b'],
    'openai-organization': 'c',
    'x-request-id': 'd',
  })
  expect(passed).toEqual({ 'content-type': 'a', 'x-request-id': 'd' })
  expect(buildUpstreamQuery(new URLSearchParams('alt=sse&key=k&fields=x&$fields=y&beta=true'))).toBe(
    '?alt=sse&beta=true',
  )
})

test.each<[string, boolean]>([
  ['{}', false],
  ['{"a":{"a":1},"b":[{"a":1},{"a":2}]}', false],
  ['{"a":1,"a":2}', true],
  ['{"x":[{"b":1,"b":1}]}', true],
  ['{"__proto__":1,"a":"\\"b\\":\\\\"}', false],
  ['{"a":1,"\\u0061":1}', true],
])('duplicate members in %s: %s', (text, expected) => {
  expect(hasDuplicates(measureJson(Buffer.from(text)).colons, JSON.parse(text))).toBe(expected)
})

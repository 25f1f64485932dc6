import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { WireLevel } from '../harnesses/model-access.ts'
import { checkRequest } from './check-request.ts'
import type { Terms } from './ledger.ts'
import { wireProtocols } from './protocols.ts'
import type { ParsedRequest, WireOperation, WireProtocol } from './wire-protocol.ts'

const TERMS: Terms = {
  catalogId: 'acme/large',
  model: 'large-1',
  provider: 'acme',
  baseUrl: null,
  protocols: ['openai-chat'],
  wireLevel: { effort: 'high' },
  outputTokens: 1000,
  prices: null,
  helpers: [{ name: 'small-*', rule: 'pin' }],
  recordBodies: false,
}
const PARSED: ParsedRequest = {
  model: 'large-1',
  level: { effort: 'high' },
  outputTokens: null,
  invalidCounts: [],
  serverSideTools: [],
  surcharges: [],
}
const GENERATE: WireOperation = { kind: 'generate', model: null }

/** Judges a request that the protocol understood as `asked`. */
function checkParsed(asked: Partial<ParsedRequest>, { terms = {}, operation = GENERATE }: Partial<Context> = {}) {
  const wire: WireProtocol = { ...wireProtocols['openai-chat'], parseRequest: () => ({ ...PARSED, ...asked }) }
  return checkRequest({ ...TERMS, ...terms }, wire, operation, { model: 'as sent', temperature: 1 })
}
type Context = { terms: Partial<Terms>; operation: WireOperation }

test('an accepted request is forwarded to the model of the terms, otherwise unchanged', () => {
  expect(checkParsed({})).toEqual({
    kind: 'accepted',
    parsed: PARSED,
    hasTools: false,
    body: { model: 'large-1', temperature: 1 },
    helper: null,
    levelAsked: null,
  })
})

test('a request for an auxiliary model is mapped to the model of the terms and recorded', () => {
  expect(checkParsed({ model: 'small-3' })).toMatchObject({
    kind: 'accepted',
    body: { model: 'large-1' },
    helper: 'small-3',
  })
  expect(checkParsed({ model: 'small-\u0000\ud800' })).toMatchObject({ helper: 'small-\ufffd\ufffd' })
})

test('a request with counts that are no whole numbers is refused, and they are named', () => {
  expect(checkParsed({ invalidCounts: ['max_tokens', 'n'] })).toEqual({
    kind: 'refused',
    reason: 'malformed',
    message: 'These are set twice, or are not integers in their usual range: max_tokens, n.',
  })
})

test('a request that names no model is refused', () => {
  expect(checkParsed({ model: null })).toMatchObject({ kind: 'refused', reason: 'model' })
  expect(checkParsed({ model: null }, { terms: { helpers: [{ name: '', rule: 'pin' }] } }).kind).toBe('accepted')
})

test('the refusal of a model names it, cut to 200 characters, and the one to use', () => {
  const message = `Unknown model ${'x'.repeat(200)}. Use large-1.`
  expect(checkParsed({ model: 'x'.repeat(201) })).toEqual({ kind: 'refused', reason: 'model', message })
})

test.each([
  [
    'hosted',
    { serverSideTools: ['web_search', 'code'], surcharges: ['tier'], model: 'other' },
    /outside.*: web_search, code\.$/,
  ],
  ['surcharge', { surcharges: ['flex', 'audio'], model: 'other' }, /billed separately.*: flex, audio\.$/],
  ['model', { model: 'other' }, /other.*large-1/],
])('%s is refused first, and the message names it', (reason, asked, message) => {
  expect(checkParsed(asked)).toEqual({ kind: 'refused', reason, message: expect.stringMatching(message) })
})

test('a refusal lists at most ten names in 200 characters', () => {
  const many = Array.from({ length: 11 }, (_, index) => `tool${index}`)
  expect(checkParsed({ serverSideTools: many })).toMatchObject({
    message: expect.stringMatching(/: tool0, .*, tool9\.$/),
  })
  expect(checkParsed({ serverSideTools: ['y'.repeat(300)] })).toMatchObject({
    message: expect.stringMatching(/: y{200}\.$/),
  })
})

describe('the level of a request', () => {
  const levels: [what: string, level: WireLevel | null, shown: object][] = [
    ['an effort', { effort: 'high' }, { effort: 'high' }],
    ['a lower effort', { effort: 'low' }, { effort: 'low' }],
    ['a budget', { budgetTokens: 100 }, { budgetTokens: 100 }],
    ['a larger budget', { budgetTokens: 101 }, { budgetTokens: 101 }],
    ['thinking switched off', { off: true }, { off: true }],
    ['no level', null, { unsaid: true }],
  ]
  const expected: [WireLevel, string][] = [
    [{ effort: 'high' }, 'an effort'],
    [{ effort: 'HIGH' }, 'an effort'],
    [{ budgetTokens: 100 }, 'a budget'],
    [{ off: true }, 'thinking switched off'],
    [{ nothing: true }, 'no level'],
  ]

  test.each(expected)('agrees with the terms %j only as %s', (wireLevel, agreeing) => {
    for (const [what, level, shown] of levels) {
      const levelAsked = what === agreeing ? null : shown
      expect(checkParsed({ level }, { terms: { wireLevel } }), what).toMatchObject({ kind: 'accepted', levelAsked })
    }
  })

  test('is compared without regard to case', () => {
    expect(checkParsed({ level: { effort: 'HiGh' } })).toMatchObject({ levelAsked: null })
  })

  test('is recorded as printable text', () => {
    expect(checkParsed({ level: { effort: 'low\u0007' } })).toMatchObject({ levelAsked: { effort: 'low\ufffd' } })
  })

  test('does not matter to an auxiliary model, nor when tokens are only counted', () => {
    expect(checkParsed({ level: null, model: 'small-1' })).toMatchObject({ levelAsked: null })
    const count: WireOperation = { kind: 'count', model: null }
    expect(checkParsed({ level: null }, { operation: count })).toMatchObject({ levelAsked: null })
  })
})

test('in the name of an auxiliary model a star stands for any text, and every other character for itself', () => {
  const names = fc.string({ unit: fc.constantFrom('a', 'b', '.', '*'), maxLength: 8 })
  fc.assert(
    fc.property(names, names, (name, model) => {
      const pattern = new RegExp(`^${name.replaceAll('.', '\\.').replaceAll('*', '.*')}$`)
      const judged = checkParsed({ model }, { terms: { helpers: [{ name, rule: 'pin' }] } })
      expect(judged.kind === 'accepted').toBe(pattern.test(model))
    }),
    { numRuns: 1000 },
  )
})

test.each<[string, string, boolean]>([
  ['ab*ba', 'abba', true],
  ['ab*ba', 'aba', false],
  ['a*b*c', 'abc', true],
  ['a*b*c', 'acb', false],
  ['a*bc*c', 'abc', false],
  ['a*b*b*c', 'abc', false],
  ['a*b*b*c', 'abbc', true],
  ['*', '', true],
  ['**', 'x', true],
])('%s matches %s: %s', (name, model, isMatch) => {
  const judged = checkParsed({ model }, { terms: { helpers: [{ name, rule: 'pin' }] } })
  expect(judged.kind === 'accepted').toBe(isMatch)
})

test('the first rule that matches a name decides', () => {
  const rules: Terms['helpers'] = [
    { name: 'a-1', rule: 'refuse' },
    { name: 'a-*', rule: 'pin' },
  ]
  expect(checkParsed({ model: 'a-1' }, { terms: { helpers: rules } }).kind).toBe('refused')
  expect(checkParsed({ model: 'a-1' }, { terms: { helpers: rules.toReversed() } }).kind).toBe('accepted')
})

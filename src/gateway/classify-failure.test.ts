import { describe, expect, test } from 'vitest'
import { classifyFailure } from './failure-causes.ts'

/** How providers say that they will not serve a key. */
const CREDENTIAL_PHRASES = [
  'Your credit balance is too low to access the API.',
  '{"code":"insufficient_quota"}',
  'Insufficient Balance',
  'insufficient_balance',
  '{"reason":"API_KEY_INVALID"}',
  'API key not valid. Please pass a valid API key.',
  'invalid_api_key',
  'billing_not_active',
  'Your account has been deactivated.',
  'This account was suspended.',
  'account suspended',
]

test.each(CREDENTIAL_PHRASES)('%s is a failure of the credential, with every client error', (body) => {
  for (const status of [400, 404, 429, 499]) expect(classifyFailure(status, body)).toBe('credential')
})

test.each(CREDENTIAL_PHRASES)('%s in a server error or a redirect says nothing about the credential', (body) => {
  for (const status of [302, 399, 500, 529]) expect(classifyFailure(status, body)).toBe('upstream')
})

test.each([
  'The account team was asked, and a user far away from it was suspended.',
  'account 12345678901234567890 suspended',
  'The account is in order.',
])('%s is not read as a suspended account', (body) => {
  expect(classifyFailure(400, body)).toBe('request')
})

describe('without such a phrase the status decides', () => {
  test.each<[status: number, kind: string]>([
    [400, 'request'],
    [401, 'credential'],
    [402, 'credential'],
    [403, 'credential'],
    [404, 'model'],
    [405, 'request'],
    [428, 'request'],
    [429, 'rate'],
    [430, 'request'],
    [499, 'request'],
    [399, 'upstream'],
    [500, 'upstream'],
    [503, 'upstream'],
  ])('%i: %s', (status, kind) => {
    expect(classifyFailure(status, 'x')).toBe(kind)
  })
})

test('a request larger than the rate limit per minute is the request’s fault', () => {
  expect(classifyFailure(429, 'Request too large for gpt on tokens per min')).toBe('request')
  expect(classifyFailure(404, 'request too large')).toBe('model')
  expect(classifyFailure(503, 'request too large')).toBe('upstream')
})

import { describe, expect, test } from 'vitest'
import {
  buildCheckValue,
  matchesCheckValue,
  newMasterKey,
  open,
  rewrap,
  SealBroken,
  type Sealed,
  type SecretContext,
  seal,
} from './seal.ts'

const key = newMasterKey()
const place: SecretContext = { workspaceId: 'w', credentialId: 'c', version: 1, kind: 'model', provider: 'anthropic' }
const secret = { apiKey: 'sk-ant-canary', note: 'ü \n"' }
const sealed = seal(key, place, secret)

test('a sealed secret opens again and is not readable', () => {
  expect(open(key, place, sealed)).toEqual(secret)
  expect(Buffer.concat([sealed.wrappedKey, sealed.ciphertext]).includes('canary')).toBe(false)
})

test('sealing the same secret twice gives different ciphertexts', () => {
  const again = seal(key, place, secret)
  expect(again.ciphertext.equals(sealed.ciphertext)).toBe(false)
  expect(again.wrappedKey.equals(sealed.wrappedKey)).toBe(false)
})

describe('cannot be opened for another row', () => {
  test.each<[string, Partial<SecretContext>]>([
    ['another workspace', { workspaceId: 'v' }],
    ['another credential', { credentialId: 'd' }],
    ['another version', { version: 2 }],
    ['another kind', { kind: 'registry' }],
    ['another provider', { provider: 'openai' }],
    ['the same letters, cut elsewhere', { workspaceId: 'w|c', credentialId: '1' }],
  ])('%s', (_, change) => {
    expect(() => open(key, { ...place, ...change }, sealed)).toThrow(SealBroken)
  })

  test('under another master key', () => {
    expect(() => open(newMasterKey(), place, sealed)).toThrow(SealBroken)
  })

  test('with the data key of another secret', () => {
    const other = seal(key, place, secret)
    expect(() => open(key, place, { ...sealed, wrappedKey: other.wrappedKey })).toThrow(SealBroken)
  })
})

test.each<'wrappedKey' | 'ciphertext'>(['wrappedKey', 'ciphertext'])('no bit of %s can be changed', (part) => {
  const opened: number[] = []
  for (let bit = 0; bit < sealed[part].length * 8; bit++) {
    const flipped = Buffer.from(sealed[part])
    flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
    if (opens({ ...sealed, [part]: flipped })) opened.push(bit)
  }
  expect(opened).toEqual([])
})

test.each([0, 1, 11, 12, 16, 27, 28])('no cut to %i bytes opens', (length) => {
  expect(opens({ ...sealed, ciphertext: sealed.ciphertext.subarray(0, length) })).toBe(false)
  expect(opens({ ...sealed, wrappedKey: sealed.wrappedKey.subarray(0, length) })).toBe(false)
})

test('a rewrapped data key opens only with the new master key and leaves the secret unchanged', () => {
  const next = newMasterKey()
  const moved = { ...sealed, masterKeyId: next.id, wrappedKey: rewrap(key, next, place, sealed.wrappedKey) }
  expect(open(next, place, moved)).toEqual(secret)
  expect(() => open(key, place, moved)).toThrow(SealBroken)
  expect(() => rewrap(next, key, place, sealed.wrappedKey)).toThrow(SealBroken)
})

test('the error reveals neither secret nor key nor reason', () => {
  const { message, cause } = new SealBroken()
  expect({ message, cause }).toEqual({
    message: 'A sealed secret does not open: it was changed, moved, or sealed with another key.',
    cause: undefined,
  })
})

test('a check value matches only its own key', () => {
  const value = buildCheckValue(key)
  expect(matchesCheckValue(key, value)).toBe(true)
  expect(matchesCheckValue(newMasterKey(), value)).toBe(false)
  expect(matchesCheckValue(key, value.subarray(1))).toBe(false)
  expect(matchesCheckValue({ id: 'other', bytes: key.bytes }, value)).toBe(false)
  expect(key.id).toMatch(/^[0-9a-f]{16}$/)
})

function opens(candidate: Sealed): boolean {
  try {
    open(key, place, candidate)
    return true
  } catch (error) {
    if (!(error instanceof SealBroken)) throw error
    return false
  }
}

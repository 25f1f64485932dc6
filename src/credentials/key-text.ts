import { type MasterKey, masterKey } from './seal.ts'

/** The master key is missing, wrong or badly kept. The message says what to do, and never holds a key. */
export class MasterKeyRefused extends Error {
  override name = 'MasterKeyRefused'
}

const KEY_BYTES = 32
const HEX = /^[0-9a-f]{64}$/i
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/
const DISTINCT_BYTES_MIN = 8

/** Each text is one key; `where` is named when one of them is none. */
export function parseKeys(texts: string[], where: string): MasterKey[] {
  const keys = texts.map((text, place) => masterKey(parseKey(text.trim(), `Key ${place + 1} in ${where}`)))
  if (keys.length === 0) throw new MasterKeyRefused(`${where} holds no key.`)
  return [...new Map(keys.map((key) => [key.id, key])).values()]
}

export const keyText = (key: MasterKey): string => key.bytes.toString('base64')

function parseKey(text: string, which: string): Buffer {
  const bytes = HEX.test(text) ? Buffer.from(text, 'hex') : Buffer.from(BASE64.test(text) ? text : '', 'base64')
  if (bytes.length !== KEY_BYTES) {
    throw new MasterKeyRefused(
      `${which} is not 32 bytes as 64 hex digits or base64. Make one with: openssl rand -hex 32`,
    )
  }
  if (new Set(bytes).size < DISTINCT_BYTES_MIN) {
    throw new MasterKeyRefused(`${which} is not random. Make one with: openssl rand -hex 32`)
  }
  return bytes
}

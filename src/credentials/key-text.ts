import { type MasterKey, masterKey } from './seal.ts'

/** The master key is missing, wrong or not protected. The message contains the fix and never a key. */
export class MasterKeyRefused extends Error {
  override name = 'MasterKeyRefused'
}

const KEY_BYTES = 32
const HEX = /^[0-9a-f]{64}$/i
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/
const DISTINCT_BYTES_MIN = 8

/** Parses one key per text. `where` is named in errors. */
export function parseKeys(texts: string[], where: string): MasterKey[] {
  const keys = texts.map((text, index) => masterKey(parseKey(text.trim(), `Key ${index + 1} in ${where}`)))
  if (keys.length === 0) throw new MasterKeyRefused(`${where} contains no key.`)
  return [...new Map(keys.map((key) => [key.id, key])).values()]
}

export const keyText = (key: MasterKey): string => key.bytes.toString('base64')

function parseKey(text: string, which: string): Buffer {
  const bytes = HEX.test(text) ? Buffer.from(text, 'hex') : Buffer.from(BASE64.test(text) ? text : '', 'base64')
  if (bytes.length !== KEY_BYTES) {
    throw new MasterKeyRefused(
      `${which} is not 32 bytes as 64 hex digits or base64. Create one with: openssl rand -hex 32`,
    )
  }
  if (new Set(bytes).size < DISTINCT_BYTES_MIN) {
    throw new MasterKeyRefused(`${which} is not random. Create one with: openssl rand -hex 32`)
  }
  return bytes
}

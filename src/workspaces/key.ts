import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const RANDOM_LENGTH = 32
const CHECKSUM_LENGTH = 6
const KEY_FORMAT = /^assay_[0-9A-Za-z]{38}$/

/** Creates a key: `assay_`, 32 random characters and a checksum that detects typing errors without a database query. */
export function newKey(): string {
  const random = Array.from({ length: RANDOM_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  return `assay_${random}${computeChecksum(`assay_${random}`)}`
}

export const isKey = (text: string): boolean =>
  KEY_FORMAT.test(text) && computeChecksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH)

/** Hashes a key for storage. With 190 random bits a slow hash is not needed. */
export const hashKey = (key: string): Buffer => createHash('sha256').update(key).digest()

function computeChecksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let digit = 0; digit < CHECKSUM_LENGTH; digit++) {
    digits = ALPHABET.charAt(rest % ALPHABET.length) + digits
    rest = Math.floor(rest / ALPHABET.length)
  }
  return digits
}

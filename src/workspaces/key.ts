import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const RANDOM_LENGTH = 32
const CHECKSUM_LENGTH = 6
const SHAPE = /^assay_[0-9A-Za-z]{38}$/

/** `assay_`, 32 random characters, and a checksum by which a typing error is found without a look in the database. */
export function newKey(): string {
  const random = Array.from({ length: RANDOM_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  return `assay_${random}${checksum(`assay_${random}`)}`
}

export const isKey = (text: string): boolean =>
  SHAPE.test(text) && checksum(text.slice(0, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH)

/** What we keep of a key. It has 190 random bits: a slow hash would add nothing. */
export const keyHash = (key: string): Buffer => createHash('sha256').update(key).digest()

function checksum(text: string): string {
  let rest = crc32(text)
  let digits = ''
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    digits = ALPHABET.charAt(rest % ALPHABET.length) + digits
    rest = Math.floor(rest / ALPHABET.length)
  }
  return digits
}

import { createHash, randomInt, timingSafeEqual } from 'node:crypto'

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
/** As many as hold 32 random bytes. */
const LENGTH = 43

export const newSecret = (): string =>
  Array.from({ length: LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')

/** What is kept of a secret. It is random and long: a slow hash would add nothing. */
export const secretHash = (secret: string): Buffer => createHash('sha256').update(secret).digest()

export const isSecretOf = (secret: string, hash: Buffer): boolean => timingSafeEqual(secretHash(secret), hash)

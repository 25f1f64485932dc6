import { createPrivateKey } from 'node:crypto'
import { DEFAULT_CIPHERS } from 'node:tls'

/**
 * Ciphers of connections to untrusted servers. Without finite-field Diffie-Hellman, for which the server chooses the
 * size: a handshake with 10,000 bits blocks the event loop for a second.
 */
export const OUTBOUND_CIPHERS = `${DEFAULT_CIPHERS}:!DHE`

const RSA_BITS_MAX = 4096
/** Longer than any key of the allowed sizes. */
const KEY_CHARS_MAX = 4_000

/**
 * Returns true if signing with this private key is fast. The time grows with the cube of the size, and the numbers of an
 * RSA key need not fit together: one that is too large blocks the event loop for minutes.
 */
export function isUsablePrivateKey(pem: string): boolean {
  if (pem.length > KEY_CHARS_MAX) return false
  try {
    const key = createPrivateKey(pem)
    if (key.asymmetricKeyType !== 'rsa') return true
    const { n = '', d = '', p = '', q = '', dp = '', dq = '', qi = '' } = key.export({ format: 'jwk' })
    const bytes = Buffer.from(n, 'base64url').length
    const isWithin = (max: number) => (part: string) => Buffer.from(part, 'base64url').length <= max
    return bytes * 8 <= RSA_BITS_MAX && isWithin(bytes)(d) && [p, q, dp, dq, qi].every(isWithin(Math.ceil(bytes / 2)))
  } catch {
    return false
  }
}

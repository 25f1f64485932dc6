import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'

export const Secret = z.record(z.string(), z.string())
/** The fields that a provider asks for, by name. */
export type Secret = z.infer<typeof Secret>

export type MasterKey = { id: string; bytes: Buffer }

/** What a secret belongs to. It is bound into both ciphertexts: moved to another row, or renamed, they do not open. */
export type Place = { workspaceId: string; credentialId: string; version: number; kind: string; provider: string }

/** The secret under a data key of its own, and that data key under the master key. */
export type Sealed = { masterKeyId: string; wrappedKey: Buffer; ciphertext: Buffer }

/** Says nothing of what went wrong: the difference would help only someone who tries to forge. */
export class SealBroken extends Error {
  override name = 'SealBroken'

  constructor() {
    super('A sealed secret does not open: it was changed, moved, or sealed with another key.')
  }
}

const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

export function seal(master: MasterKey, place: Place, secret: Secret): Sealed {
  const dataKey = randomBytes(KEY_BYTES)
  return {
    masterKeyId: master.id,
    wrappedKey: encrypt(master.bytes, dataKey, aboutKey(place)),
    ciphertext: encrypt(dataKey, Buffer.from(JSON.stringify(secret)), about(place)),
  }
}

export function open(master: MasterKey, place: Place, sealed: Sealed): Secret {
  const dataKey = decrypt(master.bytes, sealed.wrappedKey, aboutKey(place))
  return Secret.parse(JSON.parse(decrypt(dataKey, sealed.ciphertext, about(place)).toString()))
}

/** The data key under another master key. The secret itself is not touched. */
export const rewrap = (from: MasterKey, to: MasterKey, place: Place, wrappedKey: Buffer): Buffer =>
  encrypt(to.bytes, decrypt(from.bytes, wrappedKey, aboutKey(place)), aboutKey(place))

export const newMasterKey = (): MasterKey => masterKey(randomBytes(KEY_BYTES))

export const masterKey = (bytes: Buffer): MasterKey => ({
  id: createHash('sha256').update('assay master key id').update(bytes).digest('hex').slice(0, 16),
  bytes,
})

const CHECK = Buffer.from('assay master key check')

/** Kept in the database: whoever can open it holds the key. */
export const checkValue = (key: MasterKey): Buffer => encrypt(key.bytes, CHECK, key.id)

export function fitsCheckValue(key: MasterKey, value: Buffer): boolean {
  try {
    return decrypt(key.bytes, value, key.id).equals(CHECK)
  } catch {
    return false
  }
}

/** Only the provider can hold a separator, and it comes last. */
const about = ({ workspaceId, credentialId, version, kind, provider }: Place): string =>
  [workspaceId, credentialId, version, kind, provider].join('|')

const aboutKey = (place: Place): string => `key|${about(place)}`

/** Nonce, ciphertext, tag. */
function encrypt(key: Buffer, plain: Buffer, aad: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(aad))
  return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
}

function decrypt(key: Buffer, sealed: Buffer, aad: string): Buffer {
  try {
    const nonce = sealed.subarray(0, NONCE_BYTES)
    const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(aad)).setAuthTag(sealed.subarray(-TAG_BYTES))
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch {
    throw new SealBroken()
  }
}

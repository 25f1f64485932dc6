import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { z } from 'zod'

export const Secret = z.record(z.string(), z.string())
/** Fields of a credential, by name. */
export type Secret = z.infer<typeof Secret>

export type MasterKey = { id: string; bytes: Buffer }

/** Row that a secret belongs to. Bound into both ciphertexts (AAD), so that they do not open in another row. */
export type SecretContext = {
  workspaceId: string
  credentialId: string
  version: number
  kind: string
  provider: string
}

/** A secret encrypted with its own data key, and the data key encrypted with the master key. */
export type Sealed = { masterKeyId: string; wrappedKey: Buffer; ciphertext: Buffer }

/** Returns the columns in which tables store a sealed secret. */
export const toSealedColumns = (sealed: Sealed) => ({
  master_key_id: sealed.masterKeyId,
  wrapped_key: sealed.wrappedKey,
  ciphertext: sealed.ciphertext,
})

/** Thrown when a secret does not open. The message does not tell the causes apart: that would only help an attacker. */
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

export function seal(master: MasterKey, context: SecretContext, secret: Secret): Sealed {
  const dataKey = randomBytes(KEY_BYTES)
  return {
    masterKeyId: master.id,
    wrappedKey: encrypt(master.bytes, dataKey, toKeyAad(context)),
    ciphertext: encrypt(dataKey, Buffer.from(JSON.stringify(secret)), toAad(context)),
  }
}

export function open(master: MasterKey, context: SecretContext, sealed: Sealed): Secret {
  const dataKey = decrypt(master.bytes, sealed.wrappedKey, toKeyAad(context))
  return Secret.parse(JSON.parse(decrypt(dataKey, sealed.ciphertext, toAad(context)).toString()))
}

/** Encrypts the data key with another master key. The secret itself is not touched. */
export const rewrap = (from: MasterKey, to: MasterKey, context: SecretContext, wrappedKey: Buffer): Buffer =>
  encrypt(to.bytes, decrypt(from.bytes, wrappedKey, toKeyAad(context)), toKeyAad(context))

export const newMasterKey = (): MasterKey => toMasterKey(randomBytes(KEY_BYTES))

export const toMasterKey = (bytes: Buffer): MasterKey => ({
  id: createHash('sha256').update('assay master key id').update(bytes).digest('hex').slice(0, 16),
  bytes,
})

const CHECK_TEXT = Buffer.from('assay master key check')

/** Builds the check value that is stored to recognise a key. */
export const buildCheckValue = (key: MasterKey): Buffer => encrypt(key.bytes, CHECK_TEXT, key.id)

export function matchesCheckValue(key: MasterKey, value: Buffer): boolean {
  try {
    return decrypt(key.bytes, value, key.id).equals(CHECK_TEXT)
  } catch {
    return false
  }
}

/** Returns the additional authenticated data. Unambiguous: only the provider can contain a separator, and it comes last. */
const toAad = ({ workspaceId, credentialId, version, kind, provider }: SecretContext): string =>
  [workspaceId, credentialId, version, kind, provider].join('|')

const toKeyAad = (context: SecretContext): string => `key|${toAad(context)}`

/** Returns nonce, ciphertext and tag. */
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

import { createHash } from 'node:crypto'
import { parseServiceAccount } from '../platform/outbound/google-token.ts'
import { findUrlRefusal } from '../platform/outbound/outbound.ts'
import { isUsablePrivateKey } from '../platform/outbound/tls-limits.ts'
import { type FieldError, toPointerStep } from '../platform/problem.ts'
import { parseEngineUrl } from './checks.ts'
import type { Secret } from './seal.ts'

export type CredentialField = {
  name: string
  required: boolean
  /** True if the value must stay hidden. Other values may be shown as hint. */
  secret: boolean
  /** True if the value is a text of several lines. Default: false. */
  multiline?: boolean
  findProblem: (value: string) => string | undefined
  /** Returns the part of a value that may be shown. Default: the end of a long secret. */
  hint?: (value: string) => string
}

const SECRET_BYTES_MAX = 64 * 1024

/** A key. It is sent in a header, so it must be a valid header value. */
export const token = (name: string): CredentialField => ({
  name,
  required: true,
  secret: true,
  findProblem: (value) =>
    /^[\x21-\x7e]+$/.test(value) ? undefined : 'must be visible ASCII characters without spaces',
})

export const awsRegion = (name: string): CredentialField => ({
  name,
  required: true,
  secret: false,
  findProblem: (value) =>
    /^[a-z]{2}(-[a-z]+)+-\d$/.test(value) ? undefined : 'must be the name of a region, for example us-east-1',
})

/** The JSON key file of a Google service account. */
export const serviceAccount = (name: string): CredentialField => ({
  name,
  required: true,
  secret: true,
  multiline: true,
  hint: (value) => parseServiceAccount(value)?.email ?? '',
  findProblem: (value) =>
    parseServiceAccount(value)
      ? undefined
      : 'must be the JSON key file of a service account, with an RSA key of at most 4096 bits in it',
})

export const apiVersion = (name: string): CredentialField => ({
  name,
  required: false,
  secret: false,
  findProblem: (value) =>
    /^\d{4}-\d\d-\d\d(-preview)?$/.test(value) ? undefined : 'must be a version such as 2024-10-21',
})

export const optional = (field: CredentialField): CredentialField => ({ ...field, required: false })

/** A certificate or private key in PEM format. */
export const pem = (name: string, kind: 'certificate' | 'private key'): CredentialField => ({
  name,
  required: false,
  secret: kind === 'private key',
  multiline: true,
  findProblem: (value) => {
    if (!value.startsWith('-----BEGIN ')) return 'must be PEM text: -----BEGIN …'
    if (kind === 'certificate' || isUsablePrivateKey(value)) return undefined
    return 'must be a private key without a passphrase; RSA keys have at most 4096 bits'
  },
})

const SSH_KEY = /^-----BEGIN OPENSSH PRIVATE KEY-----\s([A-Za-z0-9+/=\s]+)-----END OPENSSH PRIVATE KEY-----$/

/** An OpenSSH private key without a passphrase. The hint is the end of its public key's fingerprint. */
export const sshKey = (name: string): CredentialField => ({
  name,
  required: true,
  secret: true,
  multiline: true,
  hint: (value) => readFingerprint(value)?.slice(-8) ?? '',
  findProblem: (value) =>
    readFingerprint(value) ? undefined : 'must be an OpenSSH private key without a passphrase (ssh-keygen -t ed25519)',
})

const OPENSSH_MAGIC = 'openssh-key-v1\0'
const LENGTH_BYTES = 4

/**
 * Returns the fingerprint of the public key, or undefined for an invalid or encrypted key. The format is a magic text, the
 * names of cipher and key derivation, options of the latter, the number of keys, and the first public key.
 */
function readFingerprint(privateKey: string): string | undefined {
  const bytes = Buffer.from(SSH_KEY.exec(privateKey)?.[1] ?? '', 'base64')
  if (bytes.toString('latin1', 0, OPENSSH_MAGIC.length) !== OPENSSH_MAGIC) return undefined
  const readString = (at: number): { text: Buffer; end: number } => {
    const start = at + LENGTH_BYTES
    const length = start <= bytes.length ? bytes.readUInt32BE(at) : 0
    return { text: bytes.subarray(start, start + length), end: start + length }
  }
  const cipher = readString(OPENSSH_MAGIC.length)
  const derivationOptions = readString(readString(cipher.end).end)
  const publicKey = readString(derivationOptions.end + LENGTH_BYTES).text
  if (cipher.text.toString() !== 'none' || publicKey.length === 0) return undefined
  return createHash('sha256').update(publicKey).digest('base64').replace(/=+$/, '')
}

const KNOWN_HOST = /^[\w.,:*?[\]|+/=-]+ (ssh|ecdsa|sk)-[\w@.-]+ [A-Za-z0-9+/]+=*( .*)?$/

/** Host keys as in OpenSSH's `known_hosts`. Certificate authorities and revocations are not supported. */
export const knownHosts = (name: string): CredentialField => ({
  name,
  required: true,
  secret: false,
  multiline: true,
  findProblem: (value) => {
    const lines = value.split(/\r?\n/).filter((line) => line.trim() !== '' && !line.startsWith('#'))
    const isValid = lines.length > 0 && lines.every((line) => KNOWN_HOST.test(line))
    return isValid ? undefined : 'must be lines of known_hosts, as ssh-keyscan prints them'
  },
})

/** A public host name, with or without a port. */
export const hostName = (name: string): CredentialField => ({
  name,
  required: false,
  secret: false,
  findProblem: (value) => {
    const isName = /^[A-Za-z0-9.-]+(:\d{1,5})?$/.test(value)
    return isName && !findUrlRefusal(`https://${value.toLowerCase()}`, 'client')
      ? undefined
      : 'must be a public host name'
  },
})

/** The address of a Docker engine on a public host. */
export const engineAddress = (name: string): CredentialField => ({
  name,
  required: true,
  secret: false,
  findProblem: (value) => {
    const url = parseEngineUrl(value)
    return url && !findUrlRefusal(url, 'client') ? undefined : 'must be tcp://HOST:PORT of a public host'
  },
})

/** Removes whitespace around pasted keys. */
export const trimSecret = (secret: Secret): Secret =>
  Object.fromEntries(Object.entries(secret).map(([name, value]) => [name, value.trim()]))

/** Lists all problems of a secret, under `/secret`. */
export function listSecretErrors(fields: CredentialField[], secret: Secret): FieldError[] {
  if (Buffer.byteLength(JSON.stringify(secret)) > SECRET_BYTES_MAX) {
    return [{ pointer: '/secret', code: 'too_big', message: 'must be at most 64 KiB' }]
  }
  const unknown = Object.keys(secret).filter((name) => !fields.some((field) => field.name === name))
  return [
    ...unknown.map((name) => toFieldError(name, 'unknown_field', 'Unknown field.')),
    ...fields.flatMap((field) => listValueErrors(field, secret[field.name])),
  ]
}

function listValueErrors({ name, required, findProblem }: CredentialField, value: string | undefined): FieldError[] {
  if (value === undefined) return required ? [toFieldError(name, 'required', 'is required')] : []
  const message = value === '' ? 'must not be empty' : findProblem(value)
  return message ? [toFieldError(name, 'invalid_format', message)] : []
}

const toFieldError = (name: string, code: string, message: string): FieldError => ({
  pointer: `/secret/${toPointerStep(name)}`,
  code,
  message,
})

/** Shorter secrets have no hint: it would reveal too much of them. */
const HINT_LENGTH_MIN = 12
const HINT_LENGTH = 4

/** Builds the hint from the first field: the last 4 characters of a long secret, or the whole value if it is not secret. */
export function buildHint([main]: CredentialField[], values: Secret): string {
  const value = (main && values[main.name]) ?? ''
  if (!main?.secret) return value
  if (main.hint) return main.hint(value)
  return value.length >= HINT_LENGTH_MIN ? value.slice(-HINT_LENGTH) : ''
}

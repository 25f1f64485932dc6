import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import { z } from 'zod'
import { parseOrUndefined } from '../errors.ts'
import { isUsablePrivateKey } from './tls-limits.ts'

/** The members of a service account's key file that a token request needs. */
type ServiceAccount = {
  email: string
  privateKey: KeyObject
  privateKeyId: string | undefined
  tokenUrl: string
}

const KeyFile = z.object({
  type: z.literal('service_account'),
  client_email: z.string().min(1),
  private_key: z.string().refine(isUsablePrivateKey),
  private_key_id: z.string().optional(),
  token_uri: z.url().default('https://oauth2.googleapis.com/token'),
})

/**
 * Parses the key file of a service account. Returns undefined if the text is not such a file, or if its key cannot be
 * read.
 */
export const parseServiceAccount = (text: string): ServiceAccount | undefined =>
  parseOrUndefined(() => {
    const file = KeyFile.parse(JSON.parse(text))
    return {
      email: file.client_email,
      privateKey: createPrivateKey(file.private_key),
      privateKeyId: file.private_key_id,
      tokenUrl: file.token_uri,
    }
  })

const SCOPE = 'https://www.googleapis.com/auth/cloud-platform'
const LIFETIME_SECONDS = 3600

type TokenRequest = { url: string; headers: Record<string, string>; body: Buffer<ArrayBuffer> }

/** Builds the request that exchanges a signed assertion for an access token (RFC 7523). */
export function buildTokenRequest(account: ServiceAccount): TokenRequest {
  const issuedAt = Math.floor(Date.now() / 1000)
  const header = { alg: 'RS256', typ: 'JWT', kid: account.privateKeyId }
  const claims = {
    iss: account.email,
    scope: SCOPE,
    aud: account.tokenUrl,
    iat: issuedAt,
    exp: issuedAt + LIFETIME_SECONDS,
  }
  const signingInput = [header, claims].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
  const signature = sign('RSA-SHA256', Buffer.from(signingInput), account.privateKey).toString('base64url')
  const form = new URLSearchParams({
    grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
    assertion: `${signingInput}.${signature}`,
  })
  return {
    url: account.tokenUrl,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: Buffer.from(form.toString()),
  }
}

const TokenAnswer = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() })

/** Returns the token of an answer and its lifetime, or undefined if there is none. */
export const parseTokenAnswer = (text: string): { token: string; lifetimeMs: number } | undefined =>
  parseOrUndefined(() => {
    const { access_token: token, expires_in: seconds } = TokenAnswer.parse(JSON.parse(text))
    return { token, lifetimeMs: seconds * 1000 }
  })

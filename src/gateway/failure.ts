import type { FailureKind } from './ledger.ts'

/** Providers say in many ways that they will not serve this key. Waiting helps with none of them. */
const CREDENTIAL_WORDS =
  /credit balance is too low|insufficient_quota|insufficient[ _]balance|api_key_invalid|api key not valid|invalid_api_key|billing_not_active|account.{0,20}(deactivated|suspended)/i

/** No pause helps a request that is larger than what the account may send in a minute. */
const TOO_LARGE = /request too large/i

/** Whose doing it is, by the answer of the provider. */
export function failureKind(status: number, body: string): FailureKind {
  if (status === 401 || status === 402 || status === 403) return 'credential'
  if (status >= 400 && status < 500 && CREDENTIAL_WORDS.test(body)) return 'credential'
  if (status === 404) return 'model'
  if (status === 429 && TOO_LARGE.test(body)) return 'request'
  if (status === 429) return 'rate'
  if (status >= 400 && status < 500) return 'request'
  return 'upstream'
}

import type { GrantRefusal, Refusal } from './ledger.ts'

type GatewayProblem = { status: number; code: string; message: string; headers?: Record<string, string> }

/**
 * Status and code of each refusal. Status 402 ends every known agent at once; after other statuses many retry for
 * minutes.
 */
const REFUSAL_STATUSES: Record<Refusal, { status: number; code: string }> = {
  closed: { status: 402, code: 'grant_closed' },
  expired: { status: 402, code: 'grant_expired' },
  calls: { status: 402, code: 'calls_exhausted' },
  budget: { status: 402, code: 'budget_exhausted' },
  shared_budget: { status: 402, code: 'budget_exhausted' },
  price: { status: 402, code: 'price_unknown' },
  credential: { status: 402, code: 'credential_refused' },
  model: { status: 404, code: 'model_not_found' },
  hosted: { status: 400, code: 'hosted_tool_not_allowed' },
  surcharge: { status: 400, code: 'surcharge_not_allowed' },
  token: { status: 401, code: 'invalid_token' },
  size: { status: 413, code: 'request_too_large' },
  malformed: { status: 400, code: 'malformed_request' },
  path: { status: 404, code: 'not_found' },
  busy: { status: 429, code: 'too_many_calls_at_once' },
}

/** Messages of the refusals that are decided before or during the reservation of a call. */
export const GRANT_REFUSAL_MESSAGES: Record<GrantRefusal | 'price' | 'size' | 'busy', string> = {
  closed: 'This trial has ended.',
  expired: 'This trial has run out of time.',
  calls: 'This trial has used all of its calls.',
  budget: 'The budget of this trial is spent.',
  shared_budget: 'The budget of this comparison is spent.',
  price: 'The price of this model is unknown, so its budget cannot be enforced.',
  size: 'The request is too large for the budget of this comparison. Send less input.',
  busy: 'The open calls of this trial hold the rest of the budget. Wait until one of them has ended.',
}

const REFUSAL_HEADERS: Partial<Record<Refusal, Record<string, string>>> = {
  busy: { 'retry-after': '1' },
  // The rest of the body is not read, so the connection cannot be reused.
  size: { connection: 'close' },
}

export const toRefusalProblem = (reason: Refusal, message: string): GatewayProblem => ({
  ...REFUSAL_STATUSES[reason],
  message,
  headers: REFUSAL_HEADERS[reason] ?? {},
})

export const CREDENTIAL_REFUSED: GatewayProblem = {
  status: 402,
  code: 'credential_refused',
  message: 'The provider refused the credential of this trial, or its account has no credit.',
}

/** The provider accepts the key but rejects this request. */
export const REQUEST_REFUSED: GatewayProblem = {
  status: 400,
  code: 'request_refused',
  message: 'The provider refused this request.',
}

export const TIMED_OUT: GatewayProblem = {
  status: 504,
  code: 'provider_timeout',
  message: 'The provider did not answer in time.',
}

export const UNREACHABLE: GatewayProblem = {
  status: 502,
  code: 'provider_unreachable',
  message: 'The provider could not be reached.',
}

export const BROKEN: GatewayProblem = { status: 500, code: 'gateway_error', message: 'Internal error of the gateway.' }

import type { JsonObject } from '../wire.ts'

const TYPES: Record<number, string> = {
  401: 'authentication_error',
  402: 'insufficient_quota',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
}

/** An error as both protocols of this family have it. */
export const openaiProblem = (status: number, code: string, message: string): JsonObject => ({
  error: {
    message,
    type: TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'server_error'),
    param: null,
    code,
  },
})

import type { JsonObject } from '../../../src/harnesses/json.ts'

const CODES: Record<number, string> = {
  401: 'invalid_api_key',
  402: 'insufficient_quota',
  404: 'model_not_found',
  429: 'rate_limit_exceeded',
}

export const openaiProblem = (status: number, message: string): JsonObject => ({
  error: {
    message,
    type: status < 500 ? 'invalid_request_error' : 'server_error',
    param: null,
    code: CODES[status] ?? null,
  },
})

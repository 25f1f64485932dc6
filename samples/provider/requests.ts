import type { IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { brotliDecompressSync, gunzipSync, zstdDecompressSync } from 'node:zlib'
import type { ProviderScript } from './script.ts'

/** Returns the API key from the header or parameter of the protocol. */
export function keyOf({ headers }: IncomingMessage, query: URLSearchParams): string | null {
  const bearer = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1]
  const [own] = [headers['x-api-key'] ?? headers['x-goog-api-key']].flat()
  return own ?? bearer ?? query.get('key')
}

/** Reads a request body, which may be compressed. */
export async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const bytes = await buffer(request)
  const encoding = request.headers['content-encoding']
  if (encoding === 'gzip') return gunzipSync(bytes)
  if (encoding === 'br') return brotliDecompressSync(bytes)
  return encoding === 'zstd' ? zstdDecompressSync(bytes) : bytes
}

/** Answers requests that cost nothing: model lists, token counts, health checks. */
export function asideOf({ models = [] }: ProviderScript, method: string | undefined, path: string): [number, object] {
  if (/\/(count_tokens|input_tokens)$/.test(path)) return [200, { object: 'response.input_tokens', input_tokens: 1000 }]
  if (path.endsWith(':countTokens')) return [200, { totalTokens: 1000 }]
  if (method === 'HEAD') return [200, {}]
  if (path.endsWith('/v1beta/models')) return [200, { models: models.map((name) => ({ name: `models/${name}` })) }]
  if (path.endsWith('/models')) return [200, { object: 'list', data: models.map((id) => ({ id, object: 'model' })) }]
  return [404, { error: { message: 'Not found.', type: 'not_found_error' } }]
}

import { Readable } from 'node:stream'
import type { Secret } from '../../credentials/seal.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import type { OpenStream } from '../../platform/outbound/open-stream.ts'
import { readStart } from '../upstream.ts'
import type { WireProtocol } from '../wire-protocol.ts'

/** The model that a transport calls, and how. */
export type CloudCall = { wire: WireProtocol; model: string; secret: Secret }

/**
 * Returns a client that takes requests and returns answers of the model's own protocol. It translates both, and
 * authenticates each request. Each file of this folder implements the transport of one cloud; no other code knows it.
 */
export type CloudTransport = (openStream: OpenStream, call: CloudCall) => OpenStream

export type StreamAnswer = Awaited<ReturnType<OpenStream>>

const TEXT_BYTES_MAX = 64 * 1024

/** Reads the text of an error or another short answer. The rest of a longer one is dropped. */
export async function readShortText({ body }: StreamAnswer): Promise<string> {
  body.on('error', () => {}) // Prevents an unhandled error event after the last read.
  return (await readStart(body, TEXT_BYTES_MAX)).toString()
}

/** Builds an answer that replaces the one of the cloud. `headers` are those of the cloud's answer. */
export const toJsonAnswer = (
  status: number,
  body: JsonObject,
  headers: StreamAnswer['headers'] = {},
): StreamAnswer => ({
  status,
  headers: { ...headers, 'content-type': 'application/json', 'content-encoding': undefined },
  body: Readable.from([Buffer.from(JSON.stringify(body))]),
})

/** Beta features of Anthropic's API that clouds have too, by the name that programs send. */
const BETAS: Record<string, { name: string; clouds: readonly ('bedrock' | 'vertex')[] }> = {
  'advanced-tool-use-2025-11-20': { name: 'tool-search-tool-2025-10-19', clouds: ['bedrock', 'vertex'] },
  'compact-2026-01-12': { name: 'compact-2026-01-12', clouds: ['bedrock', 'vertex'] },
  'computer-use-2025-01-24': { name: 'computer-use-2025-01-24', clouds: ['bedrock', 'vertex'] },
  'computer-use-2025-11-24': { name: 'computer-use-2025-11-24', clouds: ['bedrock', 'vertex'] },
  'context-management-2025-06-27': { name: 'context-management-2025-06-27', clouds: ['bedrock', 'vertex'] },
  'effort-2025-11-24': { name: 'effort-2025-11-24', clouds: ['bedrock'] },
  'fine-grained-tool-streaming-2025-05-14': { name: 'fine-grained-tool-streaming-2025-05-14', clouds: ['bedrock'] },
  'interleaved-thinking-2025-05-14': { name: 'interleaved-thinking-2025-05-14', clouds: ['bedrock', 'vertex'] },
  'tool-search-tool-2025-10-19': { name: 'tool-search-tool-2025-10-19', clouds: ['bedrock', 'vertex'] },
}

/**
 * Returns the betas of an `anthropic-beta` header that a cloud has. Others are dropped, because clouds refuse requests
 * with names that they do not know, and programs that talk to Anthropic's own API send many.
 */
export function selectBetas(header: string | undefined, cloud: 'bedrock' | 'vertex'): string[] {
  const requested = (header ?? '').split(',').map((name) => name.trim())
  const known = requested.flatMap((name) => (Object.hasOwn(BETAS, name) ? [BETAS[name]] : []))
  return [...new Set(known.flatMap((beta) => (beta?.clouds.includes(cloud) ? [beta.name] : [])))]
}

import { Readable } from 'node:stream'
import type { Secret } from '../../credentials/seal.ts'
import type { JsonObject } from '../../harnesses/json.ts'
import type { OpenStream } from '../../platform/outbound/stream.ts'
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

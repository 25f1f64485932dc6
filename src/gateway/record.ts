import type { Blobs } from '../platform/blobs/blob.ts'
import type { NewCall } from './ledger.ts'
import type { UpstreamRequest } from './upstream.ts'

/** What was said in a call, for workspaces that want to read it. Headers are no part of it: they have the key. */
export type CallRecord = {
  hear(chunk: Uint8Array): void
  /** Two lines of JSON: what was asked, and what was answered. */
  text(status: number | null): string
}

const BYTES_MAX = 8 * 1024 * 1024

export function startRecord({ id, protocol }: NewCall, { method, url, body }: UpstreamRequest): CallRecord {
  const { pathname, search } = new URL(url)
  const request = {
    call: id,
    at: new Date().toISOString(),
    protocol,
    method,
    path: pathname + search,
    ...said([body ?? Buffer.of()]),
  }
  const asked = JSON.stringify(request)
  const chunks: Uint8Array[] = []
  let bytes = 0
  return {
    hear(chunk) {
      bytes += chunk.length
      if (bytes - chunk.length < BYTES_MAX) chunks.push(chunk)
    },
    text: (status) =>
      `${asked}\n${JSON.stringify({ call: id, at: new Date().toISOString(), status, ...said(chunks) })}\n`,
  }
}

/** The beginning of it, where it is too long. */
function said(chunks: Uint8Array[]): { bytes: number; body: string } {
  const all = Buffer.concat(chunks)
  return { bytes: all.length, body: all.subarray(0, BYTES_MAX).toString() }
}

/** The digest of the blob. Its text has the id of the call, so no two calls share one. */
export async function keepRecord(blobs: Blobs, record: CallRecord, status: number | null): Promise<string> {
  const { digest } = await blobs.put(Buffer.from(record.text(status)))
  return digest
}

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

export function startRecord(
  { id, protocol }: NewCall,
  { method, url, body }: UpstreamRequest,
  key: string,
): CallRecord {
  const hidden = keyHider(key)
  const { pathname, search } = new URL(url)
  const request = {
    call: id,
    at: new Date().toISOString(),
    protocol,
    method,
    path: hidden(pathname + search),
    ...said([body ?? Buffer.of()], hidden),
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
      `${asked}\n${JSON.stringify({ call: id, at: new Date().toISOString(), status, ...said(chunks, hidden) })}\n`,
  }
}

/** The beginning of it, where it is too long. */
function said(chunks: Uint8Array[], hidden: (text: string) => string): { bytes: number; body: string } {
  const all = Buffer.concat(chunks)
  // Hidden before it is cut: half of a key at the end would not be found.
  return { bytes: all.length, body: hidden(all.toString()).slice(0, BYTES_MAX) }
}

const KEY_LENGTH_MIN = 4

/** Providers quote keys in their errors, and some echo what they were sent. As it is, or as it is commonly packed. */
function keyHider(key: string): (text: string) => string {
  if (key.length < KEY_LENGTH_MIN) return (text) => text
  const bytes = Buffer.from(key)
  const forms = [
    key,
    JSON.stringify(key).slice(1, -1),
    encodeURIComponent(key),
    bytes.toString('base64'),
    bytes.toString('hex'),
  ]
  return (text) => [...new Set(forms)].reduce((shown, form) => shown.replaceAll(form, '[key]'), text)
}

/** The digest of the blob. Its text has the id of the call, so no two calls share one. */
export async function keepRecord(blobs: Blobs, record: CallRecord, status: number | null): Promise<string> {
  const { digest } = await blobs.put(Buffer.from(record.text(status)))
  return digest
}

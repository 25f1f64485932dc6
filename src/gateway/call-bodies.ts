import type { Readable } from 'node:stream'
import { type Blobs, ignoreMissingBlob, isDigest } from '../platform/blobs/blob.ts'
import { type Db, transact } from '../platform/db/db.ts'
import { notFound, Problem } from '../platform/problem.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import type { NewCall } from './ledger.ts'
import type { GatewaySettings } from './schema.ts'
import { countOldBodies, findBodies, findSettings, forgetBodies, listOldBodies, storeSettings } from './sql.ts'
import type { UpstreamRequest } from './upstream.ts'

/**
 * The request and response bodies of a call, for workspaces that record them. Headers are left out: they contain the
 * key.
 */
export type CallRecord = {
  push(chunk: Uint8Array): void
  /** Returns two lines of JSON: the request and the response. */
  text(status: number | null): string
}

/** Maximum size of a recorded body. The rest of a longer one is dropped. */
const BYTES_MAX = 8 * 1024 * 1024

/** Starts the record of a call with its request. Values in `confidential` are replaced wherever they occur. */
export function startCallRecord(
  { id, protocol }: NewCall,
  { method, url, body }: UpstreamRequest,
  confidential: readonly string[],
): CallRecord {
  const hideKey = createKeyHider(confidential)
  const { pathname, search } = new URL(url)
  const request = JSON.stringify({
    call: id,
    at: new Date().toISOString(),
    protocol,
    method,
    path: hideKey(pathname + search),
    bytes: body?.length ?? 0,
    body: toStoredText([body ?? Buffer.of()], hideKey),
  })
  const chunks: Uint8Array[] = []
  let bytes = 0
  return {
    push(chunk) {
      bytes += chunk.length
      if (bytes - chunk.length < BYTES_MAX) chunks.push(chunk)
    },
    text(status) {
      const stored = { bytes, body: toStoredText(chunks, hideKey) }
      const response = { call: id, at: new Date().toISOString(), status, ...stored }
      return `${request}\n${JSON.stringify(response)}\n`
    },
  }
}

/** Returns a body as text, or its beginning if it is too long. */
const toStoredText = (chunks: Uint8Array[], hideKey: (text: string) => string): string =>
  // The key is hidden before the text is truncated: half of a key at the end would not be found.
  hideKey(Buffer.concat(chunks).toString()).slice(0, BYTES_MAX)

/** Shorter values are not replaced: they would occur in ordinary text. */
const KEY_LENGTH_MIN = 4

/** Returns a function that replaces keys in any common encoding. Providers quote keys in errors, and some echo the request. */
function createKeyHider(keys: readonly string[]): (text: string) => string {
  const forms = keys.filter(({ length }) => length >= KEY_LENGTH_MIN).flatMap(listEncodings)
  return (text) => [...new Set(forms)].reduce((shown, form) => shown.replaceAll(form, '[key]'), text)
}

function listEncodings(key: string): string[] {
  const bytes = Buffer.from(key)
  return [
    key,
    JSON.stringify(key).slice(1, -1),
    encodeURIComponent(key),
    bytes.toString('base64'),
    bytes.toString('hex'),
  ]
}

/** Stores a record and returns its digest. The text contains the call's id, so no two calls share a blob. */
export async function storeCallRecord(blobs: Blobs, record: CallRecord, status: number | null): Promise<string> {
  const { digest } = await blobs.put(Buffer.from(record.text(status)))
  return digest
}

/** Opens the recorded bodies of a call of this workspace. Throws a not-found problem if no bodies are stored. */
export async function openCallBodies(
  { db, blobs }: { db: Db; blobs: Blobs },
  workspaceId: string,
  callId: string,
): Promise<{ bytes: number; content: Readable }> {
  const digest = await findBodies(db, workspaceId, callId)
  const blob = isDigest(digest) ? await blobs.find(digest) : undefined
  if (!isDigest(digest) || !blob) throw new Problem(notFound, 'No bodies are stored for this call.')
  return { bytes: blob.bytes, content: await blobs.get(digest) }
}

const SWEEP_BATCH = 500

/**
 * Deletes bodies that were recorded more than `days` ago. The blob is deleted before the reference to it: a row whose blob
 * is missing does no harm, and a blob without a row would never be deleted.
 */
export async function sweepCallBodies({ db, blobs }: { db: Db; blobs: Blobs }, days: number): Promise<void> {
  for (;;) {
    const oldCalls = await listOldBodies(db, days, SWEEP_BATCH)
    for (const { id, bodies } of oldCalls) {
      if (isDigest(bodies)) await blobs.remove(bodies).catch(ignoreMissingBlob)
      await forgetBodies(db, id)
    }
    if (oldCalls.length < SWEEP_BATCH) return
  }
}

/** Counts the calls whose bodies a sweep would delete. */
export const countSweptBodies = async (db: Db, days: number): Promise<number> => (await countOldBodies(db, days)).count

const DEFAULT_SETTINGS: GatewaySettings = { recordBodies: false }

/** Returns the gateway settings of a workspace. By default, request and response bodies are not recorded. */
export const readGatewaySettings = async (db: Db, workspaceId: string): Promise<GatewaySettings> =>
  (await findSettings(db, workspaceId)) ?? DEFAULT_SETTINGS

export const changeGatewaySettings = (db: Db, by: AuditActor, settings: GatewaySettings): Promise<GatewaySettings> =>
  transact(db, async (tx) => {
    const before = await readGatewaySettings(tx, by.workspaceId)
    if (before.recordBodies === settings.recordBodies) return settings
    await storeSettings(tx, by.workspaceId, settings)
    const detail = { recordBodies: String(settings.recordBodies) }
    await record(tx, { ...by, action: 'gateway.changed', subject: 'gateway', detail })
    return settings
  })

import { createHash } from 'node:crypto'
import { type Db, lock } from '../platform/db/db.ts'
import type { Caller, KeyCaller } from '../platform/http/caller.ts'
import { type Page, toPage } from '../platform/http/page.ts'
import type { AuditEvent } from './schema.ts'
import { type AuditRow, findAuditHead, insertAuditEvent, listAuditRows } from './sql.ts'

type AuditEntry = {
  workspaceId: string
  actor: string
  /** `<noun>.<verb in the past>`, for example `key.created`. */
  action: string
  subject: string
  detail?: Record<string, string>
  requestId?: string | undefined
}

/** Returns the name of a caller in audit events. */
export const toActor = (caller: Caller): string => (caller.by === 'key' ? `key:${caller.keyId}` : 'operator')

/** The actor of an audit event: workspace, caller and request. */
export type AuditActor = Pick<AuditEntry, 'workspaceId' | 'actor' | 'requestId'>

export const toAuditActor = (caller: KeyCaller, requestId?: string): AuditActor => ({
  workspaceId: caller.workspace.id,
  actor: toActor(caller),
  requestId,
})

/** Appends an event to the workspace's hash chain, in the transaction of the action itself. */
export async function record(tx: Db, entry: AuditEntry): Promise<void> {
  await lock(tx, `audit ${entry.workspaceId}`)
  const head = await findAuditHead(tx, entry.workspaceId)
  const link = {
    workspace_id: entry.workspaceId,
    sequence: (head?.sequence ?? 0) + 1,
    at: new Date(),
    actor: entry.actor,
    action: entry.action,
    subject: entry.subject,
    request_id: entry.requestId ?? null,
  }
  const detail = entry.detail ?? {}
  await insertAuditEvent(tx, {
    ...link,
    detail: JSON.stringify(detail),
    hash: computeChainHash(head?.hash, link, detail),
  })
}

export async function listEvents(db: Db, workspaceId: string, page: Page) {
  const rows = await listAuditRows(db, workspaceId, page.cursor && Number(page.cursor.id), page.limit + 1)
  const { items, nextCursor } = toPage(rows, page.limit, ({ at, sequence }) => ({ at, id: String(sequence) }))
  return { events: items.map(toAuditEvent), nextCursor }
}

/**
 * Finds the first event that is missing or whose hash does not follow from the one before it. Returns undefined if the
 * chain is intact up to the newest event.
 */
export async function findBrokenLink(db: Db, workspaceId: string): Promise<number | undefined> {
  const head = await findAuditHead(db, workspaceId)
  let previous: { sequence: number; hash: Buffer } | undefined
  const rows = (await listAuditRows(db, workspaceId, undefined, Number.MAX_SAFE_INTEGER)).reverse()
  for (const row of rows) {
    const isNext = row.sequence === (previous?.sequence ?? 0) + 1
    if (!isNext || !computeChainHash(previous?.hash, row, toDetail(row.detail)).equals(row.hash)) return row.sequence
    previous = row
  }
  const isComplete = previous?.sequence === head?.sequence && (!previous || head?.hash.equals(previous.hash))
  return isComplete ? undefined : (previous?.sequence ?? 0) + 1
}

/** Computes the hash of an event, which also covers the hash of the event before it. */
function computeChainHash(
  previous: Buffer | undefined,
  event: Omit<AuditRow, 'detail' | 'hash'>,
  detail: Record<string, string>,
): Buffer {
  const fields = [
    previous?.toString('hex') ?? '',
    event.workspace_id,
    event.sequence,
    event.at.toISOString(),
    event.actor,
    event.action,
    event.subject,
    event.request_id,
    Object.entries(detail).sort(([a], [b]) => (a < b ? -1 : 1)),
  ]
  return createHash('sha256').update(JSON.stringify(fields)).digest()
}

type AuditEventRow = Awaited<ReturnType<typeof listAuditRows>>[number]

const toAuditEvent = (row: AuditEventRow): AuditEvent => ({
  id: String(row.sequence),
  at: row.at.toISOString(),
  actor: row.actor,
  action: row.action,
  subject: row.subject,
  detail: toDetail(row.detail),
  requestId: row.request_id,
})

/** Detail is written only by `record`, as a flat object of strings. */
const toDetail = (detail: unknown): Record<string, string> =>
  Object.fromEntries(Object.entries(detail ?? {}).map(([name, value]) => [name, String(value)]))

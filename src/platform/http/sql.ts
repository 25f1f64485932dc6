import { sql } from 'kysely'
import type { Db } from '../db/db.ts'

export const findIdempotencyKey = (db: Db, scope: string, key: string) =>
  db
    .selectFrom('idempotency_keys')
    .select(['request_hash', 'status', 'body'])
    .where('scope', '=', scope)
    .where('key', '=', key)
    .where('created_at', '>', sql<Date>`now() - interval '24 hours'`)
    .executeTakeFirst()

type Stored = { scope: string; key: string; request_hash: Buffer; status: number | null; body: string | null }

/** A key older than a day stands for nothing any more and may be taken again. */
export const insertIdempotencyKey = (db: Db, stored: Stored) =>
  db
    .insertInto('idempotency_keys')
    .values(stored)
    .onConflict((conflict) =>
      conflict.columns(['scope', 'key']).doUpdateSet({ ...stored, created_at: sql<Date>`now()` }),
    )
    .execute()

/** Does nothing when the stored key has another status or request. */
export const deleteIdempotencyKey = (db: Db, { scope, key, request_hash, status }: Stored) =>
  db
    .deleteFrom('idempotency_keys')
    .where('scope', '=', scope)
    .where('key', '=', key)
    .where('request_hash', '=', request_hash)
    .where('status', '=', status)
    .execute()

export const deleteOldIdempotencyKeys = (db: Db) =>
  db.deleteFrom('idempotency_keys').where('created_at', '<', sql<Date>`now() - interval '24 hours'`).execute()

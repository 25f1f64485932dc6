import { type Selectable, sql } from 'kysely'
import type { Db } from '../db/db.ts'
import type { DB } from '../db/tables.gen.ts'

export const findIdempotencyKey = (db: Db, scope: string, key: string) =>
  db
    .selectFrom('idempotency_keys')
    .select(['request_hash', 'status', 'body'])
    .where('scope', '=', scope)
    .where('key', '=', key)
    .where('created_at', '>', sql<Date>`now() - interval '24 hours'`)
    .executeTakeFirst()

type IdempotencyKeyRow = Omit<Selectable<DB['idempotency_keys']>, 'created_at'>

/** Stores a key. Overwrites an existing one: callers have checked that it is pending or expired. */
export const insertIdempotencyKey = (db: Db, stored: IdempotencyKeyRow) =>
  db
    .insertInto('idempotency_keys')
    .values(stored)
    .onConflict((conflict) =>
      conflict.columns(['scope', 'key']).doUpdateSet({ ...stored, created_at: sql<Date>`now()` }),
    )
    .execute()

/** Deletes a key. A no-op when the stored key has another status or request. */
export const deleteIdempotencyKey = (db: Db, { scope, key, request_hash, status }: IdempotencyKeyRow) =>
  db
    .deleteFrom('idempotency_keys')
    .where('scope', '=', scope)
    .where('key', '=', key)
    .where('request_hash', '=', request_hash)
    .where('status', '=', status)
    .execute()

export const deleteOldIdempotencyKeys = (db: Db) =>
  db.deleteFrom('idempotency_keys').where('created_at', '<', sql<Date>`now() - interval '24 hours'`).execute()

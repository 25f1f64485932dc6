import { sql } from 'kysely'
import type { Db } from '../platform/db/db.ts'

export type Offer = { sandbox: string; available: boolean; isolation: string; detail: string }

export const upsertOffer = (db: Db, workerId: string, offer: Offer) =>
  db
    .insertInto('sandbox_offers')
    .values({ worker_id: workerId, ...offer })
    .onConflict((conflict) =>
      conflict.columns(['worker_id', 'sandbox']).doUpdateSet({ ...offer, seen_at: sql<Date>`now()` }),
    )
    .execute()

export const deleteOffers = (db: Db, workerId: string) =>
  db.deleteFrom('sandbox_offers').where('worker_id', '=', workerId).execute()

export const deleteOldOffers = (db: Db) =>
  db.deleteFrom('sandbox_offers').where('seen_at', '<', sql<Date>`now() - interval '1 hour'`).execute()

/** The best first: one that is available, then the one that spoke last. */
export const listLiveOffers = (db: Db, withinSeconds: number): Promise<Offer[]> =>
  db
    .selectFrom('sandbox_offers')
    .distinctOn('sandbox')
    .select(['sandbox', 'available', 'isolation', 'detail'])
    .where('seen_at', '>', sql<Date>`now() - make_interval(secs => ${withinSeconds})`)
    .orderBy('sandbox')
    .orderBy('available', 'desc')
    .orderBy('seen_at', 'desc')
    .execute()

import { type Insertable, sql } from 'kysely'
import { z } from 'zod'
import { type Db, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { CustomModels } from '../platform/db/tables.gen.ts'
import type { Page } from '../platform/http/page.ts'
import type { CustomModel } from './schema.ts'

export type WorkerCapability = { sandbox: string; available: boolean; isolation: string; detail: string }

export const upsertCapability = (db: Db, workerId: string, capability: WorkerCapability) =>
  db
    .insertInto('sandbox_offers')
    .values({ worker_id: workerId, ...capability })
    .onConflict((conflict) =>
      conflict.columns(['worker_id', 'sandbox']).doUpdateSet({ ...capability, seen_at: sql<Date>`now()` }),
    )
    .execute()

export const deleteCapabilities = (db: Db, workerId: string) =>
  db.deleteFrom('sandbox_offers').where('worker_id', '=', workerId).execute()

export const deleteStaleCapabilities = (db: Db) =>
  db.deleteFrom('sandbox_offers').where('seen_at', '<', sql<Date>`now() - interval '1 hour'`).execute()

/** Lists the best report per sandbox: an available one before others, then the most recent. */
export const listLiveCapabilityRows = (db: Db, withinSeconds: number): Promise<WorkerCapability[]> =>
  db
    .selectFrom('sandbox_offers')
    .distinctOn('sandbox')
    .select(['sandbox', 'available', 'isolation', 'detail'])
    .where('seen_at', '>', sql<Date>`now() - make_interval(secs => ${withinSeconds})`)
    .orderBy('sandbox')
    .orderBy('available', 'desc')
    .orderBy('seen_at', 'desc')
    .execute()

/** Counts the workers that can run a sandbox. */
export async function countLiveWorkerRows(db: Db, sandbox: string, withinSeconds: number): Promise<number> {
  const { workers } = await db
    .selectFrom('sandbox_offers')
    .select(({ fn }) => fn.countAll<number>().as('workers'))
    .where('sandbox', '=', sandbox)
    .where('available', '=', true)
    .where('seen_at', '>', sql<Date>`now() - make_interval(secs => ${withinSeconds})`)
    .executeTakeFirstOrThrow()
  return Number(workers)
}

/** Locks a model name until the end of the transaction. */
export const lockSlug = (tx: Db, workspaceId: string, slug: string) => lock(tx, `custom model ${workspaceId} ${slug}`)

const StoredPrices = z.custom<CustomModel['prices']>()

/** Selects models with their newest prices. */
const selectModels = (db: Db) =>
  db
    .selectFrom('custom_models')
    .innerJoinLateral(
      (query) =>
        query
          .selectFrom('custom_model_prices')
          .select(['version', 'prices'])
          .whereRef('model', '=', 'custom_models.id')
          .orderBy('version', 'desc')
          .limit(1)
          .as('newest'),
      (join) => join.onTrue(),
    )
    .selectAll('custom_models')
    .select(['newest.version', 'newest.prices'])

const toModelRow = <R extends { prices: unknown }>(row: R) => ({ ...row, prices: StoredPrices.parse(row.prices) })

export type ModelRow = NonNullable<Awaited<ReturnType<typeof findModelRow>>>

export async function findModelRow(db: Db, workspaceId: string, slug: string) {
  const row = await selectModels(db).where('workspace_id', '=', workspaceId).where('slug', '=', slug).executeTakeFirst()
  return row && toModelRow(row)
}

export const readModelRow = async (db: Db, id: string) =>
  toModelRow(await selectModels(db).where('id', '=', id).executeTakeFirstOrThrow())

export async function listModelRows(db: Db, workspaceId: string, page: Page) {
  const found = await selectModels(db)
    .where('workspace_id', '=', workspaceId)
    .where('removed_at', 'is', null)
    .$call(pageNewestFirst('created_at', page))
    .execute()
  return found.map(toModelRow)
}

export const insertModelRow = (tx: Db, model: Omit<Insertable<CustomModels>, 'created_at' | 'removed_at'>) =>
  tx.insertInto('custom_models').values(model).execute()

export const insertPrices = (tx: Db, model: string, version: number, prices: CustomModel['prices']) =>
  tx
    .insertInto('custom_model_prices')
    .values({ model, version, prices: JSON.stringify(prices) })
    .execute()

export const updateModelRow = (tx: Db, id: string, change: Pick<Insertable<CustomModels>, 'label' | 'default_level'>) =>
  tx.updateTable('custom_models').set(change).where('id', '=', id).execute()

export const removeModelRow = (tx: Db, id: string) =>
  tx.updateTable('custom_models').set({ removed_at: sql<Date>`now()` }).where('id', '=', id).execute()

import { type Db, transact } from '../platform/db/db.ts'
import { type By, record } from '../workspaces/audit.ts'
import type { GatewaySettings } from './schema.ts'
import { findSettings, storeSettings } from './sql.ts'

const OFF: GatewaySettings = { recordBodies: false }

/** Nothing is kept unless somebody has asked for it. */
export const readSettings = async (db: Db, workspaceId: string): Promise<GatewaySettings> =>
  (await findSettings(db, workspaceId)) ?? OFF

export const changeSettings = (db: Db, by: By, wish: GatewaySettings): Promise<GatewaySettings> =>
  transact(db, async (tx) => {
    const before = await readSettings(tx, by.workspaceId)
    if (before.recordBodies === wish.recordBodies) return wish
    await storeSettings(tx, by.workspaceId, wish)
    const detail = { recordBodies: String(wish.recordBodies) }
    await record(tx, { ...by, action: 'gateway.changed', subject: 'gateway', detail })
    return wish
  })

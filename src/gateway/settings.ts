import { type Db, transact } from '../platform/db/db.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import type { GatewaySettings } from './schema.ts'
import { findSettings, storeSettings } from './sql.ts'

const OFF: GatewaySettings = { recordBodies: false }

/** Bodies are not recorded unless an admin has turned it on. */
export const readSettings = async (db: Db, workspaceId: string): Promise<GatewaySettings> =>
  (await findSettings(db, workspaceId)) ?? OFF

export const changeSettings = (db: Db, by: AuditActor, settings: GatewaySettings): Promise<GatewaySettings> =>
  transact(db, async (tx) => {
    const before = await readSettings(tx, by.workspaceId)
    if (before.recordBodies === settings.recordBodies) return settings
    await storeSettings(tx, by.workspaceId, settings)
    const detail = { recordBodies: String(settings.recordBodies) }
    await record(tx, { ...by, action: 'gateway.changed', subject: 'gateway', detail })
    return settings
  })

import { type Db, transact } from '../platform/db/db.ts'
import { type AuditActor, record } from '../workspaces/audit.ts'
import type { GatewaySettings } from './schema.ts'
import { findSettings, storeSettings } from './sql.ts'

const DEFAULTS: GatewaySettings = { recordBodies: false }

/** Returns the gateway settings of a workspace. By default, request and response bodies are not recorded. */
export const readSettings = async (db: Db, workspaceId: string): Promise<GatewaySettings> =>
  (await findSettings(db, workspaceId)) ?? DEFAULTS

export const changeSettings = (db: Db, by: AuditActor, settings: GatewaySettings): Promise<GatewaySettings> =>
  transact(db, async (tx) => {
    const before = await readSettings(tx, by.workspaceId)
    if (before.recordBodies === settings.recordBodies) return settings
    await storeSettings(tx, by.workspaceId, settings)
    const detail = { recordBodies: String(settings.recordBodies) }
    await record(tx, { ...by, action: 'gateway.changed', subject: 'gateway', detail })
    return settings
  })

import { listDailySpend } from '../../gateway/spend/spend.ts'
import type { Db } from '../../platform/db/db.ts'
import { toUsd } from '../../platform/usd.ts'
import type { WorkspaceSpend } from './schema.ts'
import { listSettingSpend } from './sql.ts'

const DAY_MS = 86_400_000
const SETTINGS_MAX = 100

/** Reads the spend of a workspace on the last days, today included. Days begin at midnight UTC. */
export async function readWorkspaceSpend(db: Db, workspaceId: string, days: number): Promise<WorkspaceSpend> {
  const since = new Date(new Date().setUTCHours(0, 0, 0, 0) - (days - 1) * DAY_MS)
  const daily = await listDailySpend(db, workspaceId, since)
  const settings = await listSettingSpend(db, workspaceId, since, SETTINGS_MAX)
  return {
    from: since.toISOString().slice(0, 10),
    costUsd: toUsd(daily.reduce((sum, { micros }) => sum + micros, 0)),
    days: daily.map(({ day, provider, micros }) => ({ day, provider, costUsd: toUsd(micros) })),
    settings: settings.map(({ micros, ...setting }) => ({ ...setting, costUsd: toUsd(micros) })),
  }
}

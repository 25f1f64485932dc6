import type { Config } from './config.ts'
import type { Log } from './platform/log.ts'
import { openStore } from './store.ts'
import { createKey } from './workspaces/keys.ts'
import { readWorkspaceRow } from './workspaces/workspaces.ts'

/** What the owner of the machine can do without any key, on the database itself. */

/** Names of the migrations that ran now. */
export async function migrateStore(config: Config, log: Log): Promise<string[]> {
  const store = await openStore(config, log)
  await store.stop()
  return store.migrated
}

/** A new admin key for a workspace whose keys were all lost. Audited like any other. */
export async function recoverKey(config: Config, log: Log, login: string): Promise<string> {
  const store = await openStore(config, log)
  try {
    const workspace = await readWorkspaceRow(store.database.db, login)
    const wish = { name: 'recovered key', permission: 'admin', expiresAt: null } as const
    return (await createKey(store.database.db, { workspaceId: workspace.id, actor: 'operator' }, wish)).key
  } finally {
    await store.stop()
  }
}

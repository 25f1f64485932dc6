import { existsSync } from 'node:fs'
import type { Config } from '../config.ts'
import { type Rotation, rotateMasterKey as rotateStoredKey } from '../credentials/rotate-master-key.ts'
import type { Database, Db } from '../platform/db/db.ts'
import type { Log } from '../platform/log.ts'
import { openStore } from '../store.ts'
import { findBrokenLink } from '../workspaces/audit.ts'
import { newKey } from '../workspaces/key.ts'
import { createKey, readKey, revokeKey } from '../workspaces/keys.ts'
import type { Key } from '../workspaces/schema.ts'
import { listWorkspaces, readWorkspaceRow } from '../workspaces/workspaces.ts'

/** Applies pending migrations and returns their names. */
export async function migrateStore(config: Config, log: Log): Promise<string[]> {
  const store = await openStore(config, log)
  await store.stop()
  return store.migrated
}

/** Generates a key for the settings. It is valid only once a service has been started with it. */
export const generateKey = (): string => newKey()

/** Creates an admin key for a workspace whose keys were all lost. Audited like any other key. */
export const recoverKey = (config: Config, log: Log, login: string): Promise<Key & { key: string }> =>
  withExistingData(config, log, async (db) => {
    const workspace = await readWorkspaceRow(db, login)
    const by = { workspaceId: workspace.id, actor: 'operator' }
    return createKey(db, by, { name: 'recovered key', permission: 'admin', expiresAt: null })
  })

/** Creates an admin key of the workspace `local` for one command of the machine's owner. */
export const createLocalKey = (
  config: Config,
  log: Log,
  { name, expiresAt }: { name: string; expiresAt: string },
): Promise<Key & { key: string }> =>
  withExistingData(config, log, async (db) =>
    createKey(db, await readLocalOperator(db), { name, permission: 'admin', expiresAt }),
  )

export const revokeLocalKey = (config: Config, log: Log, id: string): Promise<void> =>
  withExistingData(config, log, async (db) => {
    const by = await readLocalOperator(db)
    await revokeKey(db, by, await readKey(db, by.workspaceId, id))
  })

async function readLocalOperator(db: Db) {
  return { workspaceId: (await readWorkspaceRow(db, 'local')).id, actor: 'operator' }
}

export const rotateMasterKey = (config: Config, log: Log, force: boolean): Promise<Rotation> =>
  withExistingData(config, log, (db) => {
    const { dataFolder, secretKey } = config
    return rotateStoredKey({ db, dataFolder, secretKey, force })
  })

/** Result for one workspace: the first event that does not follow from the one before it, or null. */
type AuditChainResult = { login: string; brokenAt: number | null }

export const verifyAuditLogs = (config: Config, log: Log): Promise<AuditChainResult[]> =>
  withExistingData(config, log, verifyChains)

export async function verifyChains(db: Db): Promise<AuditChainResult[]> {
  const chains: AuditChainResult[] = []
  for (const { id, login } of await listWorkspaces(db))
    chains.push({ login, brokenAt: (await findBrokenLink(db, id)) ?? null })
  return chains
}

/** Opens the database for `work`. Refuses a folder without data, so that a mistyped name creates no empty database. */
export async function withExistingData<T>(
  config: Config,
  log: Log,
  work: (db: Db, database: Database) => Promise<T>,
  { migrates = true }: { migrates?: boolean } = {},
): Promise<T> {
  if (!config.databaseUrl && !existsSync(config.dataFolder)) {
    throw new Error(`${config.dataFolder} does not exist. Name the folder of the service with --data or ASSAY_DATA.`)
  }
  const store = await openStore(config, log, { migrates })
  try {
    return await work(store.database.db, store.database)
  } finally {
    await store.stop()
  }
}

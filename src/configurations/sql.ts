import { z } from 'zod'
import { type Db, lock, pageNewestFirst } from '../platform/db/db.ts'
import type { Page } from '../platform/http/page.ts'
import type { ConfigurationSummary } from './schema.ts'

/** Serializes new versions of a workspace's configurations. */
export const lockConfigurations = (tx: Db, workspaceId: string) => lock(tx, `configurations ${workspaceId}`)

export type ConfigurationRow = {
  id: string
  name: string
  version: number
  digest: string
  files: ConfigurationSummary['files']
  created_at: Date
}

// The files were validated when they were written.
const StoredFiles = z.custom<ConfigurationSummary['files']>()

const toConfigurationRow = <R extends { files: unknown }>(row: R) => ({ ...row, files: StoredFiles.parse(row.files) })

const COLUMNS = ['id', 'name', 'version', 'digest', 'files', 'created_at'] as const

const selectConfigurations = (db: Db, workspaceId: string) =>
  db.selectFrom('configurations').select(COLUMNS).where('workspace_id', '=', workspaceId)

export const listConfigurationRows = async (db: Db, workspaceId: string, page: Page): Promise<ConfigurationRow[]> =>
  (await selectConfigurations(db, workspaceId).$call(pageNewestFirst('created_at', page)).execute()).map(
    toConfigurationRow,
  )

/** Lists every version of a name, newest first. */
export const listVersions = async (db: Db, workspaceId: string, name: string): Promise<ConfigurationRow[]> =>
  (await selectConfigurations(db, workspaceId).where('name', '=', name).orderBy('version', 'desc').execute()).map(
    toConfigurationRow,
  )

/** Counts the versions of a workspace and sums up the bytes of their content. */
export async function measureConfigurations(
  db: Db,
  workspaceId: string,
): Promise<{ versions: number; storedBytes: number }> {
  const { versions, bytes } = await db
    .selectFrom('configurations')
    .select(({ fn }) => [fn.countAll<number>().as('versions'), fn.sum<number | null>('bytes').as('bytes')])
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirstOrThrow()
  return { versions: Number(versions), storedBytes: Number(bytes ?? 0) }
}

type NewConfigurationRow = Omit<ConfigurationRow, 'created_at'> & { workspace_id: string; bytes: number }

export const insertConfiguration = async (tx: Db, row: NewConfigurationRow): Promise<ConfigurationRow> =>
  toConfigurationRow(
    await tx
      .insertInto('configurations')
      .values({ ...row, files: JSON.stringify(row.files) })
      .returning(COLUMNS)
      .executeTakeFirstOrThrow(),
  )

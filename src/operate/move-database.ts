import { pipeline } from 'node:stream/promises'
import type { Config } from '../config.ts'
import {
  beginSnapshot,
  type CopyClient,
  listMigrations,
  listSequences,
  listTables,
  readTable,
  setSequences,
  withCopyClient,
  writeTable,
} from '../platform/db/copy-tables.ts'
import type { Database, Db } from '../platform/db/db.ts'
import { migrate } from '../platform/db/migrate.ts'
import type { Log } from '../platform/log.ts'
import { openStore } from '../store.ts'
import type { CopyProgress } from './backup.ts'
import { withExistingData } from './operate.ts'
import { prepareEmptyDatabase, requireRows } from './restore.ts'

type MoveSummary = { tables: number; rows: number }

/**
 * Copies the database of `from` into the empty database of `to`: from the embedded one to a server, or back. No process
 * may use the source, because its writes during the copy would be missing. The source is not changed.
 */
export const moveDatabase = (
  { from, to, log }: { from: Config; to: Config; log: Log },
  onProgress: CopyProgress,
): Promise<MoveSummary> => {
  const move = async (_: Db, source: Database): Promise<MoveSummary> => {
    await requireUnused(source)
    return withCopyClient(source, async (reader) => {
      await beginSnapshot(reader)
      return copyDatabase(reader, { to, log }, onProgress)
    })
  }
  return withExistingData(from, log, move, { migrates: false })
}

async function copyDatabase(
  reader: CopyClient,
  { to, log }: { to: Config; log: Log },
  onProgress: CopyProgress,
): Promise<MoveSummary> {
  const target = await openStore(to, log, { migrates: false })
  try {
    await prepareEmptyDatabase(target.database, await listMigrations(reader))
    const summary = await withCopyClient(target.database, (writer) => copyTables(reader, writer, onProgress))
    await migrate(target.database.db)
    return summary
  } finally {
    await target.stop()
  }
}

/** Throws if another process of Assay runs: each keeps connections to the database open. */
async function requireUnused({ pool }: Database): Promise<void> {
  const { rowCount } = await pool.query(
    `select 1 from pg_stat_activity
      where datname = current_database() and application_name like 'assay%' and pid <> pg_backend_pid() limit 1`,
  )
  if (rowCount) throw new Error('The service uses the database. Stop every process of Assay, then move it.')
}

async function copyTables(reader: CopyClient, writer: CopyClient, onProgress: CopyProgress): Promise<MoveSummary> {
  await writer.query('begin')
  const tables = await listTables(reader)
  let rows = 0
  for (const table of tables) {
    onProgress(`table ${table.name}`)
    const [source, target] = [readTable(reader, table), writeTable(writer, table)]
    await pipeline(source, target)
    requireRows({ name: table.name, rows: source.rowCount }, target.rowCount)
    rows += source.rowCount
  }
  await setSequences(writer, await listSequences(reader))
  await writer.query('commit')
  return { tables: tables.length, rows }
}

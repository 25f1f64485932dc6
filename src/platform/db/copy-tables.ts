import type { Readable, Writable } from 'node:stream'
import pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'

/** A table that is copied to a file or another database, in PostgreSQL's own text format. */
export type TableColumns = { name: string; columns: string[] }
type SequencePosition = { name: string; value: string | null }

/** A connection without time limits: copying a table may take hours. */
export type CopyClient = pg.Client

/** Opens a connection for `work` and closes it. */
export async function withCopyClient<Result>(
  { url }: { url: string },
  work: (client: CopyClient) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString: url, application_name: 'assay-copy', keepAlive: true })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** Begins a transaction that sees all tables as they are now, whatever others write afterwards. */
export const beginSnapshot = (client: CopyClient): Promise<unknown> =>
  client.query('begin isolation level repeatable read read only')

/** Tables of the migration library. Their content follows from the names of the migrations. */
const MIGRATION_TABLES = ['kysely_migration', 'kysely_migration_lock']

/** Lists all tables, each after the tables that it refers to, with the columns that can be written. */
export async function listTables(client: CopyClient): Promise<TableColumns[]> {
  const { rows } = await client.query<TableColumns>(
    `select table_name as name, array_agg(column_name::text order by ordinal_position) as columns
      from information_schema.columns join information_schema.tables using (table_schema, table_name)
      where table_schema = current_schema() and table_type = 'BASE TABLE' and is_generated = 'NEVER'
        and table_name <> all($1)
      group by table_name order by table_name`,
    [MIGRATION_TABLES],
  )
  return sortByReferences(rows, await listReferences(client))
}

type TableReference = { table: string; target: string }

async function listReferences(client: CopyClient): Promise<TableReference[]> {
  const { rows } = await client.query<TableReference>(
    `select source.relname as table, target.relname as target from pg_constraint
      join pg_class source on source.oid = conrelid join pg_class target on target.oid = confrelid
      where contype = 'f' and source.relnamespace = current_schema()::regnamespace and conrelid <> confrelid`,
  )
  return rows
}

function sortByReferences(tables: TableColumns[], references: TableReference[]): TableColumns[] {
  const sorted: TableColumns[] = []
  const remaining = new Map(tables.map((table) => [table.name, table]))
  while (remaining.size > 0) {
    const ready = [...remaining.values()].filter(
      ({ name }) => !references.some(({ table, target }) => table === name && remaining.has(target)),
    )
    if (ready.length === 0) throw new Error(`The tables ${[...remaining.keys()].join(', ')} refer to each other.`)
    for (const table of ready) remaining.delete(table.name)
    sorted.push(...ready)
  }
  return sorted
}

/** Streams the rows of a table. `rowCount` is set at the end. */
export const readTable = (client: CopyClient, table: TableColumns): Readable & { rowCount: number } =>
  client.query(copyTo(`copy ${toTarget(table)} to stdout`))

/** Inserts the rows that are written to the stream. `rowCount` is set at the end. */
export const writeTable = (client: CopyClient, table: TableColumns): Writable & { rowCount: number } =>
  client.query(copyFrom(`copy ${toTarget(table)} from stdin`))

const toTarget = ({ name, columns }: TableColumns): string =>
  `${pg.escapeIdentifier(name)} (${columns.map(pg.escapeIdentifier).join(', ')})`

/** Lists the positions of all sequences, including those of identity columns. Null for one that was never used. */
export async function listSequences(client: CopyClient): Promise<SequencePosition[]> {
  const { rows } = await client.query<SequencePosition>(
    `select sequencename as name, last_value::text as value from pg_sequences
      where schemaname = current_schema() order by sequencename`,
  )
  return rows
}

export async function setSequences(client: CopyClient, sequences: readonly SequencePosition[]): Promise<void> {
  for (const { name, value } of sequences)
    if (value !== null)
      await client.query('select setval($1::regclass, $2::bigint)', [pg.escapeIdentifier(name), value])
}

/** Lists the migrations that were applied to the database, in their order. */
export async function listMigrations(client: CopyClient): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>('select name from kysely_migration order by name')
  return rows.map(({ name }) => name)
}

/** Returns the name of a table that has rows, or undefined if the database is empty. */
export async function findFilledTable(client: CopyClient): Promise<string | undefined> {
  for (const { name } of await listTables(client)) {
    const { rowCount } = await client.query(`select 1 from ${pg.escapeIdentifier(name)} limit 1`)
    if (rowCount) return name
  }
  return undefined
}

import { writeFile } from 'node:fs/promises'
import { type ColumnType, TRIAL_COLUMNS, type TrialColumn, type TrialTableRow } from './trial-rows.ts'

const COLUMNS = Object.entries(TRIAL_COLUMNS) as [TrialColumn, ColumnType][]

const TABLE = 'trials'
const SQLITE_TYPES: Record<ColumnType, string> = {
  text: 'text',
  integer: 'integer',
  real: 'real',
  boolean: 'integer',
  json: 'text',
}

/** Writes a SQLite database with the table `trials`. Lists and objects are JSON text. */
export async function writeSqlite(file: string, rows: readonly TrialTableRow[]): Promise<void> {
  const { DatabaseSync } = await import('node:sqlite')
  const database = new DatabaseSync(file)
  try {
    const columns = COLUMNS.map(([name, type]) => `"${name}" ${SQLITE_TYPES[type]}`)
    database.exec(`create table ${TABLE} (${columns.join(', ')})`)
    const insert = database.prepare(`insert into ${TABLE} values (${COLUMNS.map(() => '?').join(', ')})`)
    database.exec('begin')
    for (const row of rows) insert.run(...COLUMNS.map(([name, type]) => toSqliteValue(type, row[name])))
    database.exec('commit')
  } finally {
    database.close()
  }
}

function toSqliteValue(type: ColumnType, value: unknown): string | number | null {
  if (value === null) return null
  if (type === 'json') return JSON.stringify(value)
  if (type === 'boolean') return value ? 1 : 0
  return value as string | number
}

const PARQUET_TYPES = { text: 'STRING', integer: 'INT64', real: 'DOUBLE', boolean: 'BOOLEAN', json: 'JSON' } as const

/** Writes a Parquet file with one row per trial. */
export async function writeParquet(file: string, rows: readonly TrialTableRow[]): Promise<void> {
  const { parquetWriteBuffer } = await import('hyparquet-writer')
  const columnData = COLUMNS.map(([name, type]) => ({
    name,
    type: PARQUET_TYPES[type],
    nullable: true,
    data: rows.map((row) => toParquetValue(type, row[name])),
  }))
  await writeFile(file, new Uint8Array(parquetWriteBuffer({ columnData })))
}

function toParquetValue(type: ColumnType, value: unknown): unknown {
  if (value === null) return undefined
  return type === 'integer' ? BigInt(value as number) : value
}

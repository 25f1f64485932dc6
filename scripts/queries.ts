import { dirname } from 'node:path'

type ReadText = (path: string) => string

/** Matches a query that is built with Kysely. */
const BUILT_QUERY = /\.(?:selectFrom|insertInto|updateTable|deleteFrom|mergeInto)\(\s*'\w+/
const TABLE_TYPES = 'src/platform/db/tables.gen.ts'
/** Match the table of a statement that writes, built with Kysely or written as text. */
const WRITE_STATEMENTS = [
  /\b(?:insertInto|updateTable|deleteFrom|mergeInto)\(\s*'(\w+)/g,
  /\binsert into (\w+)/gi,
  /\bupdate (\w+)(?: as \w+)?\s+set\b/gi,
  /\bdelete from (\w+)/gi,
]

const filterProductionCode = (paths: readonly string[]): string[] =>
  paths.filter((path) => /^(src|cli)\/.+\.ts$/.test(path) && !/\.test\.ts$/.test(path))

/** Lists files with queries outside `sql.ts`. Import rules cannot find them, because a `db` parameter needs no import. */
export function listStrayQueries(paths: readonly string[], read: ReadText): string[] {
  const [, fields = ''] = /interface DB \{([^}]*)\}/.exec(read(TABLE_TYPES)) ?? []
  const tables = [...fields.matchAll(/(\w+):/g)].map(([, table]) => table).join('|')
  const writtenQuery = new RegExp(`['"\`]\\s*(?:with|select|insert|update|delete)\\b[^'"\`]*\\b(?:${tables})\\b`, 'i')
  return filterProductionCode(paths)
    .filter((path) => !/\/sql\.ts$|^src\/platform\/db\//.test(path))
    .filter((path) => BUILT_QUERY.test(read(path)) || writtenQuery.test(read(path)))
    .map((path) => `${path} contains a query. Move it to sql.ts of the folder that owns the table.`)
}

/**
 * Tables that two nouns write. The pipeline moves a task from stage to stage; the API stores decisions and edits. Both
 * lock the row of the batch first.
 */
const SHARED_TABLES: Record<string, readonly string[]> = {
  batches: ['src/batches', 'src/taskgen'],
  batch_tasks: ['src/batches', 'src/taskgen'],
}

/** Returns the folder of the noun that a file belongs to: `src/releases`. Folders of the platform count as nouns. */
const toNounFolder = (path: string): string =>
  path.startsWith('src/platform/') ? dirname(path) : path.split('/').slice(0, 2).join('/')

/** Lists tables that more than one noun writes, except those that are meant to be shared. */
export function listSharedTables(paths: readonly string[], read: ReadText): string[] {
  const writers = new Map<string, Set<string>>()
  for (const path of filterProductionCode(paths)) {
    const text = read(path)
    for (const [, table] of WRITE_STATEMENTS.flatMap((statement) => [...text.matchAll(statement)])) {
      if (table) writers.set(table, (writers.get(table) ?? new Set()).add(toNounFolder(path)))
    }
  }
  return [...writers]
    .filter(([table, nouns]) => nouns.size > 1 && ![...nouns].every((noun) => SHARED_TABLES[table]?.includes(noun)))
    .map(([table, nouns]) => `The table ${table} is written in ${[...nouns].sort().join(' and in ')}.`)
}

import { dirname } from 'node:path'

type ReadText = (path: string) => string

const BUILT = /\.(?:selectFrom|insertInto|updateTable|deleteFrom|mergeInto)\(\s*'\w+/
const TABLES = 'src/platform/db/tables.gen.ts'
const WRITES = [
  /\b(?:insertInto|updateTable|deleteFrom|mergeInto)\(\s*'(\w+)/g,
  /\binsert into (\w+)/gi,
  /\bupdate (\w+)(?: as \w+)?\s+set\b/gi,
  /\bdelete from (\w+)/gi,
]

const filterPrograms = (paths: readonly string[]): string[] =>
  paths.filter((path) => /^(src|cli)\/.+\.ts$/.test(path) && !/\.test\.ts$/.test(path))

/** Finds queries outside `sql.ts`. Import rules cannot detect them, because a `db` parameter needs no import. */
export function listStrayQueries(paths: readonly string[], read: ReadText): string[] {
  const [, rows = ''] = /interface DB \{([^}]*)\}/.exec(read(TABLES)) ?? []
  const names = [...rows.matchAll(/(\w+):/g)].map(([, name]) => name).join('|')
  const written = new RegExp(`['"\`]\\s*(?:with|select|insert|update|delete)\\b[^'"\`]*\\b(?:${names})\\b`, 'i')
  return filterPrograms(paths)
    .filter((path) => !/\/sql\.ts$|^src\/platform\/db\//.test(path))
    .filter((path) => BUILT.test(read(path)) || written.test(read(path)))
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

/** Returns the noun of a file: `src/releases`; the parts of the platform count as nouns. */
const findNoun = (path: string): string =>
  path.startsWith('src/platform/') ? dirname(path) : path.split('/').slice(0, 2).join('/')

/** Finds tables that are written outside the noun that owns them. */
export function listSharedTables(paths: readonly string[], read: ReadText): string[] {
  const writers = new Map<string, Set<string>>()
  for (const path of filterPrograms(paths)) {
    const text = read(path)
    for (const [, table] of WRITES.flatMap((write) => [...text.matchAll(write)])) {
      if (table) writers.set(table, (writers.get(table) ?? new Set()).add(findNoun(path)))
    }
  }
  return [...writers]
    .filter(([table, nouns]) => nouns.size > 1 && ![...nouns].every((noun) => SHARED_TABLES[table]?.includes(noun)))
    .map(([table, nouns]) => `The table ${table} is written in ${[...nouns].sort().join(' and in ')}.`)
}

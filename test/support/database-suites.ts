import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** The file that every suite on the database server of a run imports, directly or not. */
const DATABASE = normalize('test/support/database.ts')

const IMPORT = /\b(?:from|import)\s*\(?\s*'(\.[^']+\.ts)'/g

/** Lists the suites that do not use the database server. Paths are relative to the working folder. */
export function listSuitesWithoutDatabase(include: string): string[] {
  const imports = new Map<string, string[]>()
  return globSync(include).filter((suite) => !collectImports(suite, imports).has(DATABASE))
}

/** Returns a file with everything that it imports, directly or not. */
function collectImports(file: string, imports: Map<string, string[]>): Set<string> {
  const found = new Set([file])
  for (const each of found) {
    const direct = imports.get(each) ?? readImports(each)
    imports.set(each, direct)
    for (const next of direct) found.add(next)
  }
  return found
}

const readImports = (file: string): string[] =>
  [...readFileSync(file, 'utf8').matchAll(IMPORT)].map(([, path = '']) => join(dirname(file), path))

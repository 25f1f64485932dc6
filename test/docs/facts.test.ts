import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { listMissingPaths } from '../../scripts/doc-paths.ts'
import { ROOT } from '../../scripts/files.ts'
import { settingNames } from '../../src/config.ts'
import { providers } from '../../src/credentials/providers.ts'
import { page, pages } from './pages.ts'

const operations = page('docs/operations.md').text

/** Returns the names in the first column of the table with this heading. */
const firstColumn = (heading: string): string[] => {
  const [, table = ''] = operations.split(`| ${heading} |`)
  const rows = table.split('\n\n')[0]?.split('\n').slice(2) ?? []
  return rows.flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name = '']) => name))
}

test('operations.md lists exactly the existing settings', () => {
  expect(firstColumn('setting').sort()).toEqual([...settingNames].sort())
})

test('operations.md lists exactly the variables that credentials are read from', () => {
  const variables = providers.flatMap(({ environment }) => Object.values(environment ?? {}))
  expect(firstColumn('variable').sort()).toEqual(variables.sort())
})

test.each(pages)('every path in $path exists', ({ path, text }) => {
  expect(listMissingPaths(path, text, (named) => existsSync(join(ROOT, named)))).toEqual([])
})

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { simulationTables } from '../test/support/statistics/simulation-table.ts'
import { ROOT } from './files.ts'

// Simulates comparisons whose truth is known, and writes into docs/statistics.md how often the statistics were right.

const PAGE = join(ROOT, 'docs/statistics.md')
const PART = /(<!-- simulation: node scripts\/statistics\.ts -->\n)[\s\S]*(<!-- end of simulation -->)/

const page = readFileSync(PAGE, 'utf8')
writeFileSync(
  PAGE,
  page.replace(PART, (_, start, end) => `${start}\n${simulationTables()}\n\n${end}`),
)

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { simulationTables } from '../test/support/statistics/simulation-table.ts'
import { ROOT } from './files.ts'

// Simulates comparisons whose true accuracies are known, and writes to docs/statistics.md how often the statistics were right.

const PAGE = join(ROOT, 'docs/statistics.md')
const SIMULATION_PART = /(<!-- simulation: node scripts\/statistics\.ts -->\n)[\s\S]*(<!-- end of simulation -->)/

const page = readFileSync(PAGE, 'utf8')
writeFileSync(
  PAGE,
  page.replace(SIMULATION_PART, (_, start, end) => `${start}\n${simulationTables()}\n\n${end}`),
)

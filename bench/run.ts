import { writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { admissionBench } from './admission.ts'
import { appBench } from './app.ts'
import { benchmarksBench } from './benchmarks.ts'
import { clusterLoadBench } from './cluster-load.ts'
import { comparisonStatisticsBench } from './comparison-statistics.ts'
import { comparisonsBench } from './comparisons.ts'
import { executionsBench } from './executions.ts'
import { gatewayBench } from './gateway.ts'
import { harnessesBench } from './harnesses.ts'
import { jobsBench } from './jobs.ts'
import type { BenchMeasurement, MeasureRow } from './measure.ts'
import { readBench } from './read.ts'
import { resultsBench } from './results.ts'
import { safetyBench } from './safety.ts'
import { scanBench } from './scan.ts'
import { siteBench } from './site.ts'
import { startBench } from './start.ts'
import { clusterTrialsBench, trialsBench } from './trials.ts'

const BENCHES: BenchMeasurement[] = [
  readBench,
  startBench,
  jobsBench,
  admissionBench,
  trialsBench,
  clusterTrialsBench,
  clusterLoadBench,
  harnessesBench,
  safetyBench,
  benchmarksBench,
  comparisonsBench,
  comparisonStatisticsBench,
  scanBench,
  executionsBench,
  gatewayBench,
  resultsBench,
  siteBench,
  appBench,
]
const RESULTS_FILE = new URL('../docs/benchmarks.md', import.meta.url)

const nameFilters = process.argv.slice(2)
const chosen = BENCHES.filter(
  ({ name }) => nameFilters.length === 0 || nameFilters.some((word) => name.toLowerCase().includes(word)),
)
if (chosen.length === 0) {
  console.error(
    `No benchmark matches ${nameFilters.join(' ')}. There are: ${BENCHES.map(({ name }) => name).join(', ')}.`,
  )
  process.exit(2)
}
const sections: string[] = []
let missed = 0
for (const bench of chosen) {
  console.log(`${bench.name} …`)
  const rows = await bench.run()
  missed += rows.filter((row) => row.passes === false).length
  const table = renderTable(rows)
  console.log(`${table}\n`)
  sections.push(`## ${bench.name}\n\n${bench.about}\n\n${table}\n`)
}
if (nameFilters.length === 0) writeFileSync(RESULTS_FILE, renderPage(sections))
process.exit(missed > 0 ? 1 : 0)

function renderTable(rows: MeasureRow[]): string {
  const PASSES_TEXT = { true: 'yes', false: 'NO', undefined: '' }
  const lines = rows.map(
    (row) => `| ${row.label} | ${row.target} | ${row.measured} | ${PASSES_TEXT[`${row.passes}`]} |`,
  )
  return ['| measurement | target | measured | passes |', '|---|---|---|---|', ...lines].join('\n')
}

function renderPage(parts: string[]): string {
  const machine = `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`
  const intro =
    'Written by `npm run bench`. Ratios are measured within one run, so that they are valid on other machines; absolute numbers are from the machine named here.'
  return `# Benchmarks\n\n${intro}\n\n${machine}, ${new Date().toISOString().slice(0, 10)}.\n\n${parts.join('\n')}`
}

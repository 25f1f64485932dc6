import { writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'
import { admissionBench } from './admission.ts'
import { benchmarksBench } from './benchmarks.ts'
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
import { startBench } from './start.ts'
import { trialsBench } from './trials.ts'

const BENCHES: BenchMeasurement[] = [
  readBench,
  startBench,
  jobsBench,
  admissionBench,
  trialsBench,
  harnessesBench,
  safetyBench,
  benchmarksBench,
  comparisonsBench,
  comparisonStatisticsBench,
  scanBench,
  executionsBench,
  gatewayBench,
  resultsBench,
]
const TARGET = new URL('../docs/benchmarks.md', import.meta.url)

const wanted = process.argv.slice(2)
const chosen = BENCHES.filter(
  ({ name }) => wanted.length === 0 || wanted.some((word) => name.toLowerCase().includes(word)),
)
const sections: string[] = []
let missed = 0
for (const bench of chosen) {
  console.log(`${bench.name} …`)
  const rows = await bench.run()
  missed += rows.filter((row) => row.passes === false).length
  const table = tableOf(rows)
  console.log(`${table}\n`)
  sections.push(`## ${bench.name}\n\n${bench.about}\n\n${table}\n`)
}
if (wanted.length === 0) writeFileSync(TARGET, page(sections))
process.exit(missed > 0 ? 1 : 0)

function tableOf(rows: MeasureRow[]): string {
  const mark = { true: 'yes', false: 'NO', undefined: '' }
  const lines = rows.map((row) => `| ${row.what} | ${row.bar} | ${row.measured} | ${mark[`${row.passes}`]} |`)
  return ['| measurement | limit | measured | passes |', '|---|---|---|---|', ...lines].join('\n')
}

function page(parts: string[]): string {
  const machine = `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'}), ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`
  const intro =
    'Written by `npm run bench`. Ratios are measured within one run, so that they are valid on other machines; absolute numbers are from the machine named here.'
  return `# Benchmarks\n\n${intro}\n\n${machine}, ${new Date().toISOString().slice(0, 10)}.\n\n${parts.join('\n')}`
}

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { PARTS, postgresFolder, requiredParts } from './support/parts.ts'
import { startSystemPostgres } from './support/system-postgres.ts'

// npm test: every case once. npm run test:long: the full counts. Both on the embedded PostgreSQL and on the system's.

const { values, positionals } = parseArgs({ options: { long: { type: 'boolean' } }, allowPositionals: true })

type Count = { passed: number; failed: number; skipped: number }

announceParts()
const counts = [run('embedded PostgreSQL', {}), await runOnSystemPostgres()]
const total = (name: keyof Count) => counts.reduce((sum, count) => sum + count[name], 0)
console.log(`${total('passed')} passed, ${total('failed')} failed, ${total('skipped')} skipped`)
process.exit(total('failed') > 0 || total('passed') === 0 ? 1 : 0)

function announceParts(): void {
  const missing = PARTS.filter((part) => part.find() === undefined)
  for (const { name, setup, without } of missing)
    console.log(`skipped: ${name} is missing, so ${without} (npm run setup -- ${setup})`)
  const required = missing.filter(({ name }) => requiredParts().includes(name))
  if (required.length === 0) return
  console.error(`ASSAY_REQUIRE names parts that are missing: ${required.map(({ name }) => name).join(', ')}`)
  process.exit(1)
}

async function runOnSystemPostgres(): Promise<Count> {
  const bin = postgresFolder()
  if (!bin) return { passed: 0, failed: 0, skipped: 0 }
  const postgres = await startSystemPostgres(bin)
  try {
    return run(postgres.version, { ASSAY_TEST_DATABASE_URL: postgres.url })
  } finally {
    postgres.stop()
  }
}

function run(title: string, environment: Record<string, string>): Count {
  console.log(`\n# ${title}`)
  const folder = mkdtempSync(join(tmpdir(), 'assay-report-'))
  const report = join(folder, 'report.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const env = { ...process.env, ...environment, ...(values.long ? { ASSAY_TEST_LONG: '1' } : {}) }
  const { status } = spawnSync('vitest', ['run', ...reporters, ...positionals], { stdio: 'inherit', env })
  try {
    return summarise(JSON.parse(readFileSync(report, 'utf8')), status ?? 1)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

type Report = {
  numPassedTests: number
  numFailedTests: number
  numPendingTests: number
  testResults: { name: string; startTime: number; endTime: number }[]
}

function summarise(report: Report, status: number): Count {
  const suites = report.testResults.map(({ name, startTime, endTime }) => ({
    name,
    seconds: (endTime - startTime) / 1000,
  }))
  console.log('Seconds per suite:')
  for (const { name, seconds } of suites.sort((a, b) => b.seconds - a.seconds)) {
    console.log(`${seconds.toFixed(1).padStart(8)}  ${relative(process.cwd(), name)}`)
  }
  // A run that broke outside of its tests has failed, whatever it counted.
  const failed = Math.max(report.numFailedTests, status === 0 ? 0 : 1)
  return { passed: report.numPassedTests, failed, skipped: report.numPendingTests }
}

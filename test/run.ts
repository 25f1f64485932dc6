import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs, stripVTControlCharacters } from 'node:util'
import { PARTS, postgresFolder, requiredParts } from './support/parts.ts'
import { startSystemPostgres } from './support/system-postgres.ts'

// npm test: every case once. npm run test:long: the full counts. Both on the embedded PostgreSQL and on the system's.

const { values, positionals } = parseArgs({ options: { long: { type: 'boolean' } }, allowPositionals: true })

type Count = { passed: number; failed: number; skipped: number; failures: string[] }

const COMPILED = join(import.meta.dirname, '../node_modules/.cache/assay-test')

/** Number of slowest suites to print. */
const SLOWEST = 25

announceParts()
const counts = [run('embedded PostgreSQL', {}), await runOnSystemPostgres()]
const total = (name: 'passed' | 'failed' | 'skipped') => counts.reduce((sum, count) => sum + count[name], 0)
for (const failure of counts.flatMap(({ failures }) => failures)) console.log(failure)
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
  if (!bin) return { passed: 0, failed: 0, skipped: 0, failures: [] }
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
  // Tests start hundreds of processes. With a cache of compiled code, each takes half of the processor time to start.
  const env = {
    NODE_COMPILE_CACHE: COMPILED,
    ...process.env,
    ...environment,
    ...(values.long && { ASSAY_TEST_LONG: '1' }),
  }
  const { status } = spawnSync('vitest', ['run', ...reporters, ...positionals], { stdio: 'inherit', env })
  try {
    return summarise(title, JSON.parse(readFileSync(report, 'utf8')), status ?? 1)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

type VitestReport = {
  numPassedTests: number
  numFailedTests: number
  numPendingTests: number
  testResults: VitestSuite[]
}

type VitestSuite = {
  name: string
  status: string
  message: string
  startTime: number
  endTime: number
  assertionResults: { status: string; fullName: string; failureMessages: string[] }[]
}

function summarise(title: string, report: VitestReport, status: number): Count {
  const seconds = ({ startTime, endTime }: VitestSuite) => (endTime - startTime) / 1000
  const slowest = report.testResults.toSorted((a, b) => seconds(b) - seconds(a)).slice(0, SLOWEST)
  console.log(`Seconds of the ${slowest.length} slowest suites:`)
  for (const suite of slowest) console.log(`${seconds(suite).toFixed(1).padStart(8)}  ${relative('.', suite.name)}`)
  // A run that broke outside of its tests has failed, whatever it counted.
  const failed = Math.max(report.numFailedTests, status === 0 ? 0 : 1)
  const failures = report.testResults.flatMap((suite) => failuresOf(title, suite))
  return { passed: report.numPassedTests, failed, skipped: report.numPendingTests, failures }
}

/** Failures come last, so that a truncated log still has them. */
function failuresOf(title: string, suite: VitestSuite): string[] {
  const failed = suite.assertionResults.filter(({ status }) => status === 'failed')
  const told = failed.map(({ fullName, failureMessages }) => ({ name: fullName, why: failureMessages.join('\n') }))
  if (told.length === 0 && suite.status === 'failed') told.push({ name: 'could not start', why: suite.message })
  return told.map(({ name, why }) => `FAILED on ${title}: ${relative('.', suite.name)}: ${name}\n${firstLines(why)}`)
}

function firstLines(text: string): string {
  const lines = stripVTControlCharacters(text).split('\n').slice(0, 20)
  return lines.map((line) => `    ${line.slice(0, 300)}`).join('\n')
}

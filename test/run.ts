import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { parseArgs, stripVTControlCharacters } from 'node:util'
import { PARTS, postgresFolder, requiredParts } from './support/parts.ts'
import { startSystemPostgres } from './support/system-postgres.ts'

// npm test: every case once. npm run test:long: the full counts. Both on the embedded PostgreSQL and on the system's.

const { values, positionals } = parseArgs({ options: { long: { type: 'boolean' } }, allowPositionals: true })

type Count = { passed: number; failed: number; skipped: number; messages: string[] }

const COMPILED = join(import.meta.dirname, '../node_modules/.cache/assay-test')

/** Number of slowest suites to print. */
const SLOWEST = 25

/**
 * Suites of this many failed tests are run once more, without others beside them: a time limit may have passed on a busy
 * machine. Tests that pass then are reported as unstable. More failures are not repeated.
 */
const MAX_UNSTABLE = 3

announceParts()
const counts = [run('embedded PostgreSQL', {}), await runOnSystemPostgres()]
const total = (name: 'passed' | 'failed' | 'skipped') => counts.reduce((sum, count) => sum + count[name], 0)
for (const message of counts.flatMap(({ messages }) => messages)) console.log(message)
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
  if (!bin) return { passed: 0, failed: 0, skipped: 0, messages: [] }
  const postgres = await startSystemPostgres(bin)
  try {
    return run(postgres.version, { ASSAY_TEST_DATABASE_URL: postgres.url })
  } finally {
    postgres.stop()
  }
}

function run(title: string, environment: Record<string, string>): Count {
  console.log(`\n# ${title}`)
  const first = runVitest(positionals, environment)
  printSlowest(first.report)
  const { numPassedTests, numFailedTests, numPendingTests: skipped } = first.report
  const failed = first.report.testResults.filter(({ status }) => status === 'failed')
  if (isRepeatedAlone(first, failed)) {
    console.log(`\n# ${title}: the suites of ${numFailedTests} failed tests, alone`)
    const files = failed.map(({ name }) => relative('.', name))
    if (runVitest(['--maxWorkers=1', ...files], environment).status === 0) {
      const messages = failed.flatMap((suite) => describeFailures(`UNSTABLE on ${title}`, suite))
      return { passed: numPassedTests + numFailedTests, failed: 0, skipped, messages }
    }
  }
  const messages = failed.flatMap((suite) => describeFailures(`FAILED on ${title}`, suite))
  // A run that broke outside of its tests has failed, whatever it counted.
  return { passed: numPassedTests, failed: Math.max(numFailedTests, Math.sign(first.status)), skipped, messages }
}

function isRepeatedAlone({ report }: VitestRun, failed: VitestSuite[]): boolean {
  const canRepeat = failed.every(({ assertionResults }) => assertionResults.some(({ status }) => status === 'failed'))
  return failed.length > 0 && report.numFailedTests <= MAX_UNSTABLE && canRepeat
}

type VitestRun = { status: number; report: VitestReport }

function runVitest(args: string[], environment: Record<string, string>): VitestRun {
  const folder = mkdtempSync(join(tmpdir(), 'assay-report-'))
  const file = join(folder, 'report.json')
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${file}`]
  // Tests start hundreds of processes. With a cache of compiled code, each takes half of the processor time to start.
  const env = {
    NODE_COMPILE_CACHE: COMPILED,
    ...process.env,
    ...environment,
    ...(values.long && { ASSAY_TEST_LONG: '1' }),
  }
  const { status } = spawnSync('vitest', ['run', ...reporters, ...args], { stdio: 'inherit', env })
  try {
    return { status: status ?? 1, report: JSON.parse(readFileSync(file, 'utf8')) }
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

function printSlowest({ testResults }: VitestReport): void {
  const seconds = ({ startTime, endTime }: VitestSuite) => (endTime - startTime) / 1000
  const slowest = testResults.toSorted((a, b) => seconds(b) - seconds(a)).slice(0, SLOWEST)
  console.log(`Seconds of the ${slowest.length} slowest suites:`)
  for (const suite of slowest) console.log(`${seconds(suite).toFixed(1).padStart(8)}  ${relative('.', suite.name)}`)
}

/** Printed last, so that a truncated log still has them. */
function describeFailures(prefix: string, suite: VitestSuite): string[] {
  const failed = suite.assertionResults.filter(({ status }) => status === 'failed')
  const failures = failed.map(({ fullName, failureMessages }) => ({ name: fullName, why: failureMessages.join('\n') }))
  if (failures.length === 0) failures.push({ name: 'could not start', why: suite.message })
  return failures.map(({ name, why }) => `${prefix}: ${relative('.', suite.name)}: ${name}\n${firstLines(why)}`)
}

function firstLines(text: string): string {
  const lines = stripVTControlCharacters(text).split('\n').slice(0, 20)
  return lines.map((line) => `    ${line.slice(0, 300)}`).join('\n')
}

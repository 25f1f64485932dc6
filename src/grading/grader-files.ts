import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findLanguageOfRunner, findRunner } from './languages/languages.ts'
import { testPaths } from './path-kinds.ts'
import { type Runner, SELECTED_TESTS } from './runners/runner.ts'
import { type HiddenTests, type PlainFile, REPOSITORY_FOLDER, type RunPlan, type TestLists } from './suite.ts'

/** The user that tests run as. Images give it access to the folders that its programs write to. */
export const TESTS_UID = 61_000

/**
 * Time the verifier needs besides the tests: applying the patch, copying hidden tests, reading reports, cleaning up.
 */
export const GRADER_SLACK_SEC = 120

type GraderOptions = {
  hidden?: HiddenTests | null
  seed?: number | null
  /** Days by which the tests' clock is shifted. Null: the real clock. */
  daysAhead?: number | null
  /** Ids of the only tests to run. Null: all tests of the plan. */
  only?: readonly string[] | null
  /** Seconds after the timeout for which tests may go on while they use CPU time. */
  patienceSec?: number
}

/**
 * Returns the files in `/tests` of a verifier. The programs are identical for every task and run; only the data differs.
 * Without lists there is no reward, only the report.
 */
export function graderFiles(plan: RunPlan, lists: TestLists | null, more: GraderOptions = {}): PlainFile[] {
  const { hidden = null, seed = null, daysAhead = null, only = null, patienceSec = 0 } = more
  const runner = findRunner(plan.runner)
  if (runner === undefined) throw new Error(`Unknown runner ${plan.runner}`)
  return [
    ...programs(),
    dataFile('run.json', runData(plan, runner, { seed, daysAhead, only, patienceSec })),
    dataFile('hidden.json', toHiddenData(hidden)),
    ...(lists === null ? [] : listFiles(lists)),
    ...(hidden?.files ?? []).map((file) => ({
      ...file,
      path: `hidden/${requireRelativePath(file.path)}`,
      executable: false,
    })),
  ]
}

const listFiles = ({ failToPass, passToPass, guards }: TestLists): PlainFile[] => [
  dataFile('f2p.json', failToPass),
  dataFile('p2p.json', passToPass),
  dataFile('guards.json', guards),
]

const FOLDER = join(import.meta.dirname, 'files')
const TOOLS = join(import.meta.dirname, 'runners', 'files')

const programs = (): PlainFile[] =>
  readdirSync(FOLDER)
    .filter((name) => /\.(py|sh)$/.test(name))
    .sort()
    .map((name) => ({
      path: name,
      content: readFileSync(join(FOLDER, name), 'latin1'),
      executable: name.endsWith('.sh'),
    }))

type RunOptions = Required<Pick<GraderOptions, 'seed' | 'daysAhead' | 'only' | 'patienceSec'>>

const runData = (plan: RunPlan, runner: Runner, { seed, daysAhead, only, patienceSec }: RunOptions): object => ({
  repository: REPOSITORY_FOLDER,
  uid: TESTS_UID,
  runner: runner.id,
  report: runner.report,
  prepare: plan.prepare,
  command: `${daysAhead === null ? '' : shiftClock(daysAhead)}${runner.command({ targets: plan.targets, seed, only })}`,
  timeoutSec: plan.timeoutSec,
  patienceSec,
  exits: runner.exits,
  settings: runner.settings,
  tests: testPaths,
  hidesModules: findLanguageOfRunner(runner.id)?.hidesModules ?? false,
  tools: Object.fromEntries([
    ...runner.tools.map(({ name, file }) => [name, readFileSync(join(TOOLS, file), 'utf8')]),
    ...(only === null ? [] : [[SELECTED_TESTS, JSON.stringify(only)]]),
  ]),
})

/**
 * Shifts the clock of all processes that the command line starts. The dynamic loader expands `$LIB` to the library
 * folder of the architecture. The monotonic clock, by which programs wait, is not shifted.
 */
const shiftClock = (days: number): string =>
  `export LD_PRELOAD='/usr/$LIB/faketime/libfaketime.so.1' FAKETIME='+${days}d' FAKETIME_DONT_FAKE_MONOTONIC=1; `

const toHiddenData = (hidden: HiddenTests | null): object => ({
  files: (hidden?.files ?? []).map(({ path, executable }) => ({ path: requireRelativePath(path), executable })),
  deleted: (hidden?.deleted ?? []).map(requireRelativePath),
})

/** Throws for a path that git would not produce, because root writes to these paths. */
function requireRelativePath(path: string): string {
  const isPlain = path.split('/').every((part) => !['', '.', '..', '.git'].includes(part.toLowerCase()))
  if (!isPlain || path.includes('\0')) throw new Error(`${JSON.stringify(path)} is not a valid path of a repository`)
  return path
}

const dataFile = (path: string, data: object): PlainFile => ({
  path,
  content: Buffer.from(`${JSON.stringify(data, null, 1)}\n`).toString('latin1'),
  executable: false,
})

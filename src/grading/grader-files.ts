import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Runner, SELECTED_TESTS } from './languages/language.ts'
import { findLanguageOfRunner, findRunner } from './languages/languages.ts'
import { testPaths } from './path-kinds.ts'
import {
  type HiddenTests,
  type PlainFile,
  REPOSITORY_FOLDER,
  type RunPlan,
  TESTS_UID,
  type TestLists,
} from './suite.ts'

/**
 * Seconds that the verifier needs besides the tests: applying the patch, copying hidden tests, reading reports, cleaning up.
 */
export const GRADER_SLACK_SEC = 120

type GraderOptions = {
  hidden?: HiddenTests | null
  /** Seed of the order of the tests. Null: the order of the runner. */
  seed?: number | null
  /** Days by which the tests' clock is shifted. Null: the real clock. */
  daysAhead?: number | null
  /** Ids of the only tests to run. Null: all tests of the plan. */
  only?: readonly string[] | null
  /** Seconds by which tests may exceed the timeout as long as they use CPU time. */
  patienceSec?: number
}

/**
 * Returns the files of the folder `/tests` of a verifier. The programs are identical for every task and run; only the data
 * differs. Without lists the grader writes no reward, only the report.
 */
export function buildGraderFiles(plan: RunPlan, lists: TestLists | null, options: GraderOptions): PlainFile[] {
  const { hidden = null, seed = null, daysAhead = null, only = null, patienceSec = 0 } = options
  const runner = findRunner(plan.runner)
  if (runner === undefined) throw new Error(`Unknown runner ${plan.runner}`)
  return [
    ...listPrograms(),
    toDataFile('run.json', buildRunData(plan, runner, { seed, daysAhead, only, patienceSec })),
    toDataFile('hidden.json', toHiddenData(hidden)),
    ...(lists === null ? [] : toListFiles(lists)),
    ...(hidden?.files ?? []).map((file) => ({
      ...file,
      path: `hidden/${requireRelativePath(file.path)}`,
      executable: false,
    })),
  ]
}

const toListFiles = ({ failToPass, passToPass, guards }: TestLists): PlainFile[] => [
  toDataFile('f2p.json', failToPass),
  toDataFile('p2p.json', passToPass),
  toDataFile('guards.json', guards),
]

const PROGRAMS_FOLDER = join(import.meta.dirname, 'files')
const TOOLS_FOLDER = join(import.meta.dirname, 'languages', 'files')

const listPrograms = (): PlainFile[] =>
  readdirSync(PROGRAMS_FOLDER)
    .filter((name) => /\.(py|sh)$/.test(name))
    .sort()
    .map((name) => ({
      path: name,
      content: readFileSync(join(PROGRAMS_FOLDER, name), 'latin1'),
      executable: name.endsWith('.sh'),
    }))

type RunOptions = Required<Pick<GraderOptions, 'seed' | 'daysAhead' | 'only' | 'patienceSec'>>

/** Name of the script that starts the servers, among the tools of a run. */
const START_SERVICES = 'start-services.sh'

function buildRunData(plan: RunPlan, runner: Runner, { seed, daysAhead, only, patienceSec }: RunOptions): object {
  const clock = daysAhead === null ? '' : renderClockShift(daysAhead)
  const { services } = plan
  return {
    repository: REPOSITORY_FOLDER,
    uid: TESTS_UID,
    runner: runner.id,
    report: runner.report,
    hosts: services?.hosts ?? [],
    // Servers have the clock of the tests, which may compare times with theirs.
    prepare: [...(services ? [`${clock}sh "$ASSAY_TOOLS/${START_SERVICES}"`] : []), ...plan.prepare],
    command: `${clock}${runner.command({ targets: plan.targets, seed, only })}`,
    timeoutSec: plan.timeoutSec,
    patienceSec,
    exits: runner.exits,
    settings: runner.settings,
    tests: testPaths,
    hidesModules: findLanguageOfRunner(runner.id)?.hidesModules ?? false,
    tools: Object.fromEntries([
      ...runner.tools.map(({ name, file }) => [name, readFileSync(join(TOOLS_FOLDER, file), 'utf8')]),
      ...(only === null ? [] : [[SELECTED_TESTS, JSON.stringify(only)]]),
      ...(services ? [[START_SERVICES, services.script]] : []),
    ]),
  }
}

/**
 * Returns shell code that shifts the clock of all processes that the rest of the command line starts. The dynamic loader
 * expands `$LIB` to the library folder of the architecture. The monotonic clock, by which programs wait, is not shifted.
 * The last variable turns off a workaround for old C libraries, with which waiting threads of Java never sleep.
 */
const renderClockShift = (days: number): string =>
  `export LD_PRELOAD='/usr/$LIB/faketime/libfaketime.so.1' FAKETIME='+${days}d' FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_FORCE_MONOTONIC_FIX=0; `

const toHiddenData = (hidden: HiddenTests | null): object => ({
  files: (hidden?.files ?? []).map(({ path, executable }) => ({ path: requireRelativePath(path), executable })),
  deleted: (hidden?.deleted ?? []).map(requireRelativePath),
})

/** Throws for a path that git would not produce, because root writes to these paths. */
function requireRelativePath(path: string): string {
  const isRelative = path.split('/').every((part) => !['', '.', '..', '.git'].includes(part.toLowerCase()))
  if (!isRelative || path.includes('\0')) throw new Error(`${JSON.stringify(path)} is not a valid path of a repository`)
  return path
}

const toDataFile = (path: string, data: object): PlainFile => ({
  path,
  content: Buffer.from(`${JSON.stringify(data, null, 1)}\n`).toString('latin1'),
  executable: false,
})

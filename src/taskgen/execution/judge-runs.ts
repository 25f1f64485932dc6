import { listRequired, type RunPlan, type SuiteRun, type TestLists, type TestStatus } from '../../grading/suite.ts'
import { reject, rejectForTiming, type StageRejection } from '../stage-result.ts'
import type { SurvivingVariant } from './solution-variants.ts'

/** Summary of one test run. */
export type SuiteSummary = {
  /** `alone`: the tests that landed, of which only suspected order-dependent failures are run. */
  variant: 'base' | 'tests' | 'alone' | 'fixed'
  cpus: number
  isShuffled: boolean
  /** Days by which the clock was shifted. Null: the real clock. */
  daysAhead: number | null
  passed: number
  failed: number
  seconds: number
  cpuSeconds: number
}

/** Result of the execution stage. */
export type Execution = {
  lists: TestLists
  plan: RunPlan
  runs: SuiteSummary[]
  /** Tests excluded as unstable. */
  unstable: string[]
  /** Failure messages of tests before the fix, by their ids. */
  messages: Record<string, string>
  /** Some test fails by an assertion rather than by a missing symbol. */
  failsByAssertion: boolean
  /** Messages of compilers and loaders without the fix, for whole files, packages or runs. */
  buildErrors: string[]
  /** Fail-to-pass tests that the base does not have. */
  newTests: string[]
  ablation: VariantResults
  medianSec: number
}

/** Result of the runs with variants of the solution: without one of its parts, or with one altered line. */
export type VariantResults = {
  /**
   * Parts that were left out in turn, and how many of them the tests need. A replacement in several places is one part,
   * needed if tests notice at least half of its places. A part that only removes code and is not needed is not counted.
   */
  groups: number
  necessary: number
  /** Altered solutions, and how many of them fail. */
  mutants: number
  noticed: number
  /** Variants that pass all tests. */
  survivors: SurvivingVariant[]
  runs: number
  cpuSeconds: number
}

/**
 * Runs of three trees: the base, the base with the tests that landed, and that with the fix. `alone` are runs of the
 * second tree in which only suspected order-dependent failures ran. Repeated, shuffled and slowed runs of a tree count
 * alike.
 */
export type SuiteRuns = {
  base: readonly SuiteRun[]
  tests: readonly SuiteRun[]
  alone: readonly SuiteRun[]
  fixed: readonly SuiteRun[]
}

export type Judgement = {
  kind: 'judged'
  lists: TestLists
  unstable: string[]
  messages: Record<string, string>
  failsByAssertion: boolean
  buildErrors: string[]
  newTests: string[]
}

const FAIL_TO_PASS_MAX = 200
const UNSTABLE_SHARE_MAX = 0.02
/** Maximum length of the names of all tests together. They are stored with the task and shown with its evidence. */
const NAMES_LENGTH_MAX = 4_000_000
const SHOWN_IDS_MAX = 5

/** Number of runs that report a test, of runs in which it passes, and of all runs. */
type TestCount = { reported: number; passed: number; runs: number }
/** Counts of one test in the runs of each tree. */
type TestTally = { id: string; base: TestCount; tests: TestCount; alone: TestCount; fixed: TestCount }

/** Classifies the tests as fail-to-pass, pass-to-pass and guards. The order of the runs does not matter. */
export function judgeRuns(runs: SuiteRuns): Judgement | StageRejection {
  const { base, tests, fixed } = runs
  if ([base, tests, fixed].some(({ length }) => length === 0))
    throw new Error('Every tree must have run at least once to be judged.')
  const tallies = tallyAll(runs)
  const unstable = tallies.filter(isUnstable)
  const stable = tallies.filter((tally) => !isUnstable(tally))
  const guards = stable.filter((tally) => isMasked(tally) && passesAlways(tally.fixed))
  const fixedByChange = stable.filter(
    (tally) => neverPasses(tally.tests) && passesAlways(tally.fixed) && !isMasked(tally),
  )
  const unaffected = stable.filter(
    ({ base: atBase, tests: before, fixed: after }) =>
      // A test that came with the change is not in the base.
      [before, after].every(passesAlways) && (atBase.reported === 0 || passesAlways(atBase)),
  )
  const classes = { broken: stable.filter(isBroken), unstable, guards, fixedByChange, unaffected }
  const rejection = findRejection(classes, runs)
  if (rejection) return rejection
  const failToPass = listIds(fixedByChange)
  return {
    kind: 'judged',
    lists: { failToPass, passToPass: listIds(unaffected), guards: listIds(guards) },
    unstable: listIds(unstable),
    messages: collectMessages(failToPass, tests),
    failsByAssertion: failToPass.some((id) => failsByAssertion(id, tests)),
    buildErrors: listBuildErrors(runs),
    newTests: listIds(fixedByChange.filter((tally) => tally.base.reported === 0)),
  }
}

/** Tests by what the runs show. `unaffected` pass in every run, `fixedByChange` only with the fix. */
type TestClasses = Record<'broken' | 'unstable' | 'guards' | 'fixedByChange' | 'unaffected', TestTally[]>

function findRejection(classes: TestClasses, runs: SuiteRuns): StageRejection | undefined {
  const { broken, unstable, guards, fixedByChange, unaffected } = classes
  if (broken.length > 0) return rejectTests('p2f', 'The fix breaks these tests:', listIds(broken))
  const flaky = unstable.filter(looksLikeFailToPass)
  if (flaky.length > 0)
    return toTimingRejection(
      rejectTests('flaky_f2p', 'The fix makes these tests pass, but not every time:', listIds(flaky)),
    )
  if (fixedByChange.length === 0)
    return reject('no_f2p', `${describeNothingFixed(guards)} ${describeFailure(runs)}`.trim())
  if (fixedByChange.length > FAIL_TO_PASS_MAX)
    return reject('too_broad', `The fix makes ${fixedByChange.length} tests pass; the maximum is ${FAIL_TO_PASS_MAX}.`)
  // Tests that protect behaviour which works today.
  const protecting = unaffected.length + guards.length
  if (unstable.length > (protecting + unstable.length) * UNSTABLE_SHARE_MAX)
    return toTimingRejection(
      rejectTests(
        'suite_unhealthy',
        `These of ${protecting + unstable.length} tests are not stable:`,
        listIds(unstable),
      ),
    )
  if (protecting === 0) return reject('no_p2p', 'No test passes both before the fix and after it.')
  const namesLength = [...guards, ...fixedByChange, ...unaffected].reduce((sum, { id }) => sum + id.length, 0)
  if (namesLength > NAMES_LENGTH_MAX)
    return reject('too_large', `The names of the tests have ${namesLength} characters together.`)
  return undefined
}

/** Marks a rejection as load-sensitive: runs may differ because the host was busy during some of them. */
const toTimingRejection = ({ reason, detail }: StageRejection): StageRejection => rejectForTiming(reason, detail)

const describeNothingFixed = (guards: TestTally[]): string =>
  guards.length === 0
    ? 'No test fails before the fix and passes after it.'
    : `No new test fails before the fix: ${guards.length} tests of the base fail only because they cannot run with the landed tests.`

/**
 * Lists tests that pass on the base and with the fix, and fail with the tests that landed. They may fail only because
 * another test ran before them, which a run without other tests shows.
 */
export const listSuspects = (runs: SuiteRuns): string[] =>
  listIds(
    tallyAll(runs).filter(
      ({ base, tests, alone, fixed }) =>
        passesAlways(base) && neverPasses(tests) && tests.reported > 0 && neverPasses(alone) && passesAlways(fixed),
    ),
  )

const PROTECTING_TESTS_MIN = 5

/** Lists warnings about usable tests for the reviewer. */
export function listExecutionConcerns({ passToPass, guards }: TestLists): string[] {
  const count = passToPass.length + guards.length
  return count >= PROTECTING_TESTS_MIN
    ? []
    : [`Tests that protect behaviour that works today: ${count}. A solution may break other code unnoticed.`]
}

/** Runs with the fix, by a clock that shows tomorrow and by one that shows a day years from now. */
type ClockRuns = { tomorrow: readonly SuiteRun[]; later: readonly SuiteRun[] }

/** Rejects tests that pass tomorrow but on no later day: their result depends on the date. */
export function rejectClockBombs(lists: TestLists, { tomorrow, later }: ClockRuns): StageRejection | undefined {
  const passes = (id: string) => (run: SuiteRun) => statusOf(run, id) === 'passed'
  const bombs = listRequired(lists).filter((id) => tomorrow.every(passes(id)) && !later.some(passes(id)))
  return bombs.length === 0 ? undefined : rejectTests('clock_bomb', 'These tests fail on a later day:', bombs)
}

function tallyAll({ base, tests, alone, fixed }: SuiteRuns): TestTally[] {
  const count = (id: string, runs: readonly SuiteRun[]): TestCount => {
    const statuses = runs.map((run) => statusOf(run, id)).filter((status) => status !== undefined)
    return {
      reported: statuses.length,
      passed: statuses.filter((status) => status === 'passed').length,
      runs: runs.length,
    }
  }
  const ids = new Set([...tests, ...fixed].flatMap((run) => Object.keys(run.statuses)))
  return [...ids].map((id) => ({
    id,
    base: count(id, base),
    tests: count(id, tests),
    alone: count(id, alone),
    fixed: count(id, fixed),
  }))
}

/** Test ids are untrusted and may equal names of built-in properties. */
const statusOf = ({ statuses }: SuiteRun, id: string): TestStatus | undefined =>
  Object.hasOwn(statuses, id) ? statuses[id] : undefined

const passesAlways = ({ passed, runs }: TestCount): boolean => passed === runs
const neverPasses = ({ passed }: TestCount): boolean => passed === 0
const isFlaky = (count: TestCount): boolean => !neverPasses(count) && !passesAlways(count)

/**
 * Returns true if a test of the base fails with the tests that landed only because it cannot run there, or only after
 * other tests.
 */
const isMasked = ({ base, tests, alone }: TestTally): boolean =>
  passesAlways(base) && neverPasses(tests) && (tests.reported === 0 || !neverPasses(alone))

/** Returns true if the fix breaks a test. A masked test that is missing with the fix too was deleted by the pull request. */
const isBroken = (tally: TestTally): boolean =>
  neverPasses(tally.fixed) && (passesAlways(tally.tests) || (isMasked(tally) && tally.fixed.reported > 0))

const isUnstable = ({ base, tests, fixed }: TestTally): boolean => [base, tests, fixed].some(isFlaky)

/** Returns true if a test mostly fails before the fix and mostly passes after it: a stable one would be fail-to-pass. */
const looksLikeFailToPass = (tally: TestTally): boolean =>
  tally.tests.passed * 2 < tally.tests.runs &&
  tally.fixed.passed * 2 > tally.fixed.runs &&
  !isMasked(tally) &&
  !isFlaky(tally.base)

const listIds = (tallies: readonly TestTally[]): string[] => tallies.map(({ id }) => id).toSorted()

const rejectTests = (reason: string, problem: string, ids: readonly string[]): StageRejection => {
  const more = ids.length > SHOWN_IDS_MAX ? ` and ${ids.length - SHOWN_IDS_MAX} more` : ''
  return reject(reason, `${problem} ${ids.toSorted().slice(0, SHOWN_IDS_MAX).join(', ')}${more}.`)
}

/** Describes the first failure with the fix, which may explain why the fix makes no test pass. */
function describeFailure({ fixed }: SuiteRuns): string {
  const [run] = fixed
  const [id, message] = Object.entries(run?.messages ?? {})[0] ?? []
  return id === undefined ? '' : `With the fix, ${id} fails: ${message}`
}

function collectMessages(ids: readonly string[], tests: readonly SuiteRun[]): Record<string, string> {
  const entries = ids.flatMap((id) => {
    const run = tests.find(({ messages }) => Object.hasOwn(messages, id))
    const message = run?.messages[id]
    return message === undefined ? [] : [[id, message] as const]
  })
  return Object.fromEntries(entries)
}

const BUILD_ERRORS_MAX = 5

/** Lists distinct messages without the fix that belong to a file, package or run that could not be loaded, not to a test. */
function listBuildErrors({ tests, fixed }: SuiteRuns): string[] {
  const testIds = new Set(fixed.flatMap(({ statuses }) => Object.keys(statuses)))
  const messages = tests.flatMap((run) => Object.entries(run.messages)).filter(([id]) => !testIds.has(id))
  return [...new Set(messages.map(([, message]) => message))].slice(0, BUILD_ERRORS_MAX)
}

/** Errors caused by a missing name, module or parameter, which a solver cannot guess. */
const MISSING_SYMBOL = [
  /\b(?:ImportError|ModuleNotFoundError|NameError|NoMethodError|LoadError|ERR_MODULE_NOT_FOUND)\b/,
  /\bAttributeError\b|has no attribute|unexpected keyword argument|takes \d+ positional arguments?/,
  /is not a (?:function|constructor)|is not defined|Cannot find (?:module|package)|does not provide an export/,
  /cannot find symbol|undefined: |undefined (?:method|local variable|function)|Call to undefined|Class ".*" not found/i,
  /unresolved (?:import|reference)|cannot find (?:function|type|value|macro|struct)|no (?:method|function|field) named/,
  /\[build failed\]|\[setup failed\]|compilation (?:failed|error)|could not compile/i,
]

function failsByAssertion(id: string, tests: readonly SuiteRun[]): boolean {
  return tests.some((run) => {
    const message = Object.hasOwn(run.messages, id) ? (run.messages[id] ?? '') : ''
    return statusOf(run, id) === 'failed' && !MISSING_SYMBOL.some((pattern) => pattern.test(message))
  })
}

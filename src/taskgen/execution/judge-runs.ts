import type { RunPlan, SuiteRun, TestLists, TestStatus } from '../../grading/suite.ts'
import { reject, type StageRejection } from '../stage-result.ts'

/** Summary of one test run. */
export type SuiteSummary = {
  variant: 'base' | 'tests' | 'fixed'
  cpus: number
  isShuffled: boolean
  /** Days by which the clock was shifted. Null: the real clock. */
  daysAhead: number | null
  passed: number
  failed: number
  seconds: number
}

/** Result of the execution stage. */
export type Execution = {
  lists: TestLists
  plan: RunPlan
  runs: SuiteSummary[]
  /** Tests excluded as unstable. */
  unstable: string[]
  /** How tests fail before the fix, by their ids. */
  messages: Record<string, string>
  /** True if some test fails by an assertion rather than by a missing symbol. */
  failsByAssertion: boolean
  ablation: { groups: number; necessary: number }
  medianSec: number
}

/**
 * Runs of three trees: the base, the base with the tests that landed, and that with the fix. Of the latter two each run
 * counts the same, however it was run.
 */
export type SuiteRuns = { base: SuiteRun; tests: readonly SuiteRun[]; fixed: readonly SuiteRun[] }

export type Judgement = {
  kind: 'judged'
  lists: TestLists
  unstable: string[]
  messages: Record<string, string>
  failsByAssertion: boolean
}

const FAIL_TO_PASS_MAX = 200
const UNSTABLE_MAX = 0.02
const SHOWN_MAX = 5

/** Number of passes without and with the fix. */
type TestTally = { id: string; atBase: TestStatus | undefined; before: number; after: number }

/** Which tests a fix turns, and which must stay. The order of the runs does not matter. */
export function judgeRuns(runs: SuiteRuns): Judgement | StageRejection {
  const { tests, fixed } = runs
  if (tests.length === 0 || fixed.length === 0) throw new Error('Nothing can be judged without runs.')
  const tallies = tallyAll(runs)
  const always = ({ after }: TestTally) => after === fixed.length
  const turned = tallies.filter((tally) => tally.before === 0 && always(tally)).map(({ id }) => id)
  const broken = tallies.filter((tally) => isBroken(tally, runs))
  const kept = tallies.filter((tally) => tally.before === tests.length && always(tally) && stoodAtBase(tally))
  const unstable = tallies.filter((tally) => isUnstable(tally, runs))
  const flaky = unstable.filter((tally) => looksTurned(tally, runs)).map(({ id }) => id)

  if (broken.length > 0)
    return rejectTests(
      'p2f',
      'The fix breaks',
      broken.map(({ id }) => id),
    )
  if (flaky.length > 0) return rejectTests('flaky_f2p', 'The fix turns, but not every time,', flaky)
  if (turned.length === 0)
    return reject('no_f2p', `No test fails before the fix and passes after it. ${describeFailure(runs)}`)
  if (turned.length > FAIL_TO_PASS_MAX) return reject('too_broad', `The fix turns ${turned.length} tests.`)
  if (unstable.length > (kept.length + unstable.length) * UNSTABLE_MAX)
    return rejectTests(
      'suite_unhealthy',
      `Of ${kept.length + unstable.length} tests these are not stable:`,
      unstable.map(({ id }) => id),
    )
  if (kept.length === 0) return reject('no_p2p', 'No test passes both before the fix and after it.')
  const messages = collectMessages(turned, tests)
  return {
    kind: 'judged',
    lists: { failToPass: turned.toSorted(), passToPass: kept.map(({ id }) => id).toSorted() },
    unstable: unstable.map(({ id }) => id).toSorted(),
    messages,
    failsByAssertion: turned.some((id) => failsByAssertion(id, tests)),
  }
}

const GUARDS_WANTED = 5

/** Lists concerns about usable tests for the reviewer. */
export function listExecutionConcerns({ passToPass }: TestLists): string[] {
  const count = passToPass.length
  return count >= GUARDS_WANTED ? [] : [`Tests that guard what works today: ${count}. It may break elsewhere unseen.`]
}

/** Runs with the fix, by a clock that shows tomorrow and by one that shows a day years from now. */
export type ClockRuns = { tomorrow: readonly SuiteRun[]; later: readonly SuiteRun[] }

/** Finds tests that pass tomorrow but on no later day: their result depends on the date. */
export function findClockBombs(
  { failToPass, passToPass }: TestLists,
  { tomorrow, later }: ClockRuns,
): StageRejection | undefined {
  const passes = (id: string) => (run: SuiteRun) => statusOf(run, id) === 'passed'
  const bombs = [...failToPass, ...passToPass].filter((id) => tomorrow.every(passes(id)) && !later.some(passes(id)))
  return bombs.length === 0 ? undefined : rejectTests('clock_bomb', 'On a later day it fails:', bombs)
}

function tallyAll({ base, tests, fixed }: SuiteRuns): TestTally[] {
  const passes = (id: string, all: readonly SuiteRun[]) => all.filter((run) => statusOf(run, id) === 'passed').length
  const ids = new Set([...tests, ...fixed].flatMap((run) => Object.keys(run.statuses)))
  return [...ids].map((id) => ({ id, atBase: statusOf(base, id), before: passes(id, tests), after: passes(id, fixed) }))
}

/** Test ids are untrusted and may equal names of built-in properties. */
const statusOf = ({ statuses }: SuiteRun, id: string): TestStatus | undefined =>
  Object.hasOwn(statuses, id) ? statuses[id] : undefined

/** A test that came with the change is not there yet. */
const stoodAtBase = ({ atBase }: TestTally): boolean => atBase === undefined || atBase === 'passed'

const isBroken = ({ before, after }: TestTally, { tests }: SuiteRuns): boolean => before === tests.length && after === 0

const isUnstable = ({ before, after }: TestTally, { tests, fixed }: SuiteRuns): boolean =>
  (before > 0 && before < tests.length) || (after > 0 && after < fixed.length)

/** More often than not it fails before and passes after: that would have been one of those that count. */
const looksTurned = ({ before, after }: TestTally, { tests, fixed }: SuiteRuns): boolean =>
  before * 2 < tests.length && after * 2 > fixed.length

const rejectTests = (reason: string, what: string, ids: readonly string[]): StageRejection => {
  const more = ids.length > SHOWN_MAX ? ` and ${ids.length - SHOWN_MAX} more` : ''
  return reject(reason, `${what} ${ids.toSorted().slice(0, SHOWN_MAX).join(', ')}${more}.`)
}

/** A failure with the fix explains why no test was fixed. */
function describeFailure({ fixed }: SuiteRuns): string {
  const [run] = fixed
  const [id, message] = Object.entries(run?.messages ?? {})[0] ?? []
  return id === undefined ? '' : `With it ${id} fails: ${message}`
}

function collectMessages(ids: readonly string[], tests: readonly SuiteRun[]): Record<string, string> {
  const entries = ids.flatMap((id) => {
    const run = tests.find(({ messages }) => Object.hasOwn(messages, id))
    const message = run?.messages[id]
    return message === undefined ? [] : [[id, message] as const]
  })
  return Object.fromEntries(entries)
}

/** Errors caused by a missing name, module or parameter, which a solver cannot guess. */
const NOT_THERE = [
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
    return statusOf(run, id) === 'failed' && !NOT_THERE.some((pattern) => pattern.test(message))
  })
}

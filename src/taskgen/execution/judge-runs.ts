import type { RunPlan, SuiteRun, TestLists, TestStatus } from '../../grading/suite.ts'
import { reject, type StageRejection } from '../stage-result.ts'

/** One of the runs behind an execution. */
export type SuiteSummary = {
  variant: 'base' | 'tests' | 'fixed'
  cpus: number
  isShuffled: boolean
  /** By the clock that it was shown. Null: it was shown the real one. */
  daysAhead: number | null
  passed: number
  failed: number
  seconds: number
}

/** What running the tests showed. */
export type Execution = {
  lists: TestLists
  plan: RunPlan
  runs: SuiteSummary[]
  /** What was left out for not being stable. */
  unstable: string[]
  /** How tests fail before the fix, by their ids. */
  messages: Record<string, string>
  /** Whether some test fails by what it asserts, and not because something is not there. */
  failsByAssertion: boolean
  ablation: { groups: number; necessary: number }
  medianSec: number
}

/**
 * Runs of three trees: the base, the base with the tests that landed, and that with the fix. Of the latter two each run
 * counts the same, however it was run.
 */
export type Runs = { base: SuiteRun; tests: readonly SuiteRun[]; fixed: readonly SuiteRun[] }

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

/** How often a test passes without the fix and with it. */
type Tally = { id: string; atBase: TestStatus | undefined; before: number; after: number }

/** Which tests a fix turns, and which must stay. The order of the runs does not matter. */
export function judgeRuns(runs: Runs): Judgement | StageRejection {
  const { tests, fixed } = runs
  if (tests.length === 0 || fixed.length === 0) throw new Error('Nothing can be judged without runs.')
  const tallies = tallyAll(runs)
  const always = ({ after }: Tally) => after === fixed.length
  const turned = tallies.filter((tally) => tally.before === 0 && always(tally)).map(({ id }) => id)
  const broken = tallies.filter((tally) => isBroken(tally, runs))
  const kept = tallies.filter((tally) => tally.before === tests.length && always(tally) && stoodAtBase(tally))
  const unstable = tallies.filter((tally) => isUnstable(tally, runs))
  const flaky = unstable.filter((tally) => looksTurned(tally, runs)).map(({ id }) => id)

  if (broken.length > 0)
    return named(
      'p2f',
      'The fix breaks',
      broken.map(({ id }) => id),
    )
  if (flaky.length > 0) return named('flaky_f2p', 'The fix turns, but not every time,', flaky)
  if (turned.length === 0)
    return reject('no_f2p', `No test fails before the fix and passes after it. ${complaint(runs)}`)
  if (turned.length > FAIL_TO_PASS_MAX) return reject('too_broad', `The fix turns ${turned.length} tests.`)
  if (unstable.length > (kept.length + unstable.length) * UNSTABLE_MAX)
    return named(
      'suite_unhealthy',
      `Of ${kept.length + unstable.length} tests these are not stable:`,
      unstable.map(({ id }) => id),
    )
  if (kept.length === 0) return reject('no_p2p', 'No test passes both before the fix and after it.')
  const messages = messagesOf(turned, tests)
  return {
    kind: 'judged',
    lists: { failToPass: turned.toSorted(), passToPass: kept.map(({ id }) => id).toSorted() },
    unstable: unstable.map(({ id }) => id).toSorted(),
    messages,
    failsByAssertion: turned.some((id) => failsByAssertion(id, tests)),
  }
}

const GUARDS_WANTED = 5

/** What a person should know of tests that may count all the same. */
export function concernsOf({ passToPass }: TestLists): string[] {
  const count = passToPass.length
  return count >= GUARDS_WANTED ? [] : [`Tests that guard what works today: ${count}. It may break elsewhere unseen.`]
}

/** Runs with the fix, by a clock that shows tomorrow and by one that shows a day years from now. */
export type ClockRuns = { tomorrow: readonly SuiteRun[]; later: readonly SuiteRun[] }

/** What counts and passes on no later day is a matter of the date, unless it does not pass tomorrow either. */
export function clockBombs(
  { failToPass, passToPass }: TestLists,
  { tomorrow, later }: ClockRuns,
): StageRejection | undefined {
  const passes = (id: string) => (run: SuiteRun) => statusOf(run, id) === 'passed'
  const bombs = [...failToPass, ...passToPass].filter((id) => tomorrow.every(passes(id)) && !later.some(passes(id)))
  return bombs.length === 0 ? undefined : named('clock_bomb', 'On a later day it fails:', bombs)
}

function tallyAll({ base, tests, fixed }: Runs): Tally[] {
  const passes = (id: string, all: readonly SuiteRun[]) => all.filter((run) => statusOf(run, id) === 'passed').length
  const ids = new Set([...tests, ...fixed].flatMap((run) => Object.keys(run.statuses)))
  return [...ids].map((id) => ({ id, atBase: statusOf(base, id), before: passes(id, tests), after: passes(id, fixed) }))
}

/** Ids are of strangers: one may be called like something that every object has. */
const statusOf = ({ statuses }: SuiteRun, id: string): TestStatus | undefined =>
  Object.hasOwn(statuses, id) ? statuses[id] : undefined

/** A test that came with the change is not there yet. */
const stoodAtBase = ({ atBase }: Tally): boolean => atBase === undefined || atBase === 'passed'

const isBroken = ({ before, after }: Tally, { tests }: Runs): boolean => before === tests.length && after === 0

const isUnstable = ({ before, after }: Tally, { tests, fixed }: Runs): boolean =>
  (before > 0 && before < tests.length) || (after > 0 && after < fixed.length)

/** More often than not it fails before and passes after: that would have been one of those that count. */
const looksTurned = ({ before, after }: Tally, { tests, fixed }: Runs): boolean =>
  before * 2 < tests.length && after * 2 > fixed.length

const named = (reason: string, what: string, ids: readonly string[]): StageRejection => {
  const more = ids.length > SHOWN_MAX ? ` and ${ids.length - SHOWN_MAX} more` : ''
  return reject(reason, `${what} ${ids.toSorted().slice(0, SHOWN_MAX).join(', ')}${more}.`)
}

/** With the fix something may still fail; that says why nothing was turned. */
function complaint({ fixed }: Runs): string {
  const [run] = fixed
  const [id, message] = Object.entries(run?.messages ?? {})[0] ?? []
  return id === undefined ? '' : `With it ${id} fails: ${message}`
}

function messagesOf(ids: readonly string[], tests: readonly SuiteRun[]): Record<string, string> {
  const entries = ids.flatMap((id) => {
    const run = tests.find(({ messages }) => Object.hasOwn(messages, id))
    const message = run?.messages[id]
    return message === undefined ? [] : [[id, message] as const]
  })
  return Object.fromEntries(entries)
}

/** Something is not there yet: a name, a module, a parameter. Whoever cannot know its name cannot write it. */
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

import type { SuiteOutcome, TestLists } from '../../grading/suite.ts'
import { reject, type StageRejection } from '../stage-result.ts'
import type { Attempt, ProofRun } from './validation.ts'

/** Doing nothing must fail, and for the right reason: what is to be mended fails, and all else works. */
export function faultOfNop({ isWon, outcome }: Attempt, lists: TestLists): StageRejection | undefined {
  if (isWon) return reject('nop_passes', 'Doing nothing passes the tests.')
  const trouble = troubleOf(outcome)
  if (trouble) return reject('nop_wrong_reason', trouble)
  const passed = passedIn(outcome)
  const broken = lists.passToPass.filter((id) => !passed.has(id))
  if (broken.length > 0) return reject('nop_wrong_reason', `Without any change these do not pass: ${listed(broken)}`)
  const early = lists.failToPass.filter((id) => passed.has(id))
  if (early.length > 0) return reject('nop_wrong_reason', `Without any change these pass: ${listed(early)}`)
  return undefined
}

/** The author's change must pass, and each time by the same tests, but for the few that runs before this have left out. */
export function faultOfOracle(
  { isWon, outcome }: Attempt,
  lists: TestLists,
  first: Attempt | undefined,
): StageRejection | undefined {
  const reason = first ? 'oracle_flaky' : 'oracle_fails'
  const trouble = troubleOf(outcome)
  if (trouble) return reject(reason, trouble)
  if (!isWon) return reject(reason, `With the change these do not pass: ${missingIn(outcome, lists)}`)
  const [before, now] = [idsIn((first ?? { outcome }).outcome), idsIn(outcome)]
  const other = differenceOf(before, now)
  if (other.length <= Math.max(before.length, now.length) * UNSTABLE_MAX) return undefined
  return reject('oracle_flaky', `Not in every run there were: ${listed(other)}`)
}

/** As many as may have no stable name: what was made of an address or of a time. */
const UNSTABLE_MAX = 0.02

/** A verifier that sees more than the patch would judge agents by something else than it judges the solution by. */
export function faultOfGold({ isWon, outcome }: Attempt, lists: TestLists): StageRejection | undefined {
  if (isWon) return undefined
  const detail = troubleOf(outcome) ?? `these do not pass: ${missingIn(outcome, lists)}`
  return reject('oracle_fails', `The change of the solution, made by an agent: ${detail}`)
}

export function runOf({ reward, outcome, seconds }: Attempt): ProofRun {
  const ids = idsIn(outcome).length
  const passed = passedIn(outcome).size
  return { reward, passed, notPassed: ids - passed, seconds }
}

function troubleOf(outcome: SuiteOutcome | undefined): string | undefined {
  if (outcome === undefined) return 'The verifier left no report.'
  return outcome.kind === 'broken'
    ? `The tests could not be counted: ${outcome.reason}. ${cut(outcome.detail)}`
    : undefined
}

const idsIn = (outcome: SuiteOutcome | undefined): string[] =>
  outcome?.kind === 'ran' ? Object.keys(outcome.run.statuses) : []

const passedIn = (outcome: SuiteOutcome | undefined): Set<string> =>
  new Set(
    outcome?.kind === 'ran'
      ? Object.entries(outcome.run.statuses).flatMap(([id, status]) => (status === 'passed' ? [id] : []))
      : [],
  )

function missingIn(outcome: SuiteOutcome | undefined, { failToPass, passToPass }: TestLists): string {
  const passed = passedIn(outcome)
  return listed([...failToPass, ...passToPass].filter((id) => !passed.has(id)))
}

function differenceOf(one: string[], other: string[]): string[] {
  const [left, right] = [new Set(one), new Set(other)]
  return [...left.symmetricDifference(right)].toSorted()
}

const LISTED_MAX = 5
const LETTERS_MAX = 2000

const listed = (ids: string[]): string =>
  cut(`${ids.slice(0, LISTED_MAX).join(', ')}${ids.length > LISTED_MAX ? ` and ${ids.length - LISTED_MAX} more` : ''}.`)

const cut = (text: string): string => text.slice(0, LETTERS_MAX)

import type { SuiteOutcome, TestLists } from '../../grading/suite.ts'
import { reject, type StageRejection } from '../stage-result.ts'
import type { ValidationRun, ValidationTrial } from './validation.ts'

/** Checks that the no-op fails for the right reason: fail-to-pass tests fail, pass-to-pass tests pass. */
export function checkNop({ isWon, outcome }: ValidationTrial, lists: TestLists): StageRejection | undefined {
  if (isWon) return reject('nop_passes', 'Doing nothing passes the tests.')
  const trouble = describeTrouble(outcome)
  if (trouble) return reject('nop_wrong_reason', trouble)
  const passed = listPassed(outcome)
  const broken = lists.passToPass.filter((id) => !passed.has(id))
  if (broken.length > 0) return reject('nop_wrong_reason', `Without any change these do not pass: ${joinIds(broken)}`)
  const early = lists.failToPass.filter((id) => passed.has(id))
  if (early.length > 0) return reject('nop_wrong_reason', `Without any change these pass: ${joinIds(early)}`)
  return undefined
}

/**
 * The author's change must pass, and each time by the same tests, but for the few that runs before this have left out.
 */
export function checkOracle(
  { isWon, outcome }: ValidationTrial,
  lists: TestLists,
  first: ValidationTrial | undefined,
): StageRejection | undefined {
  const reason = first ? 'oracle_flaky' : 'oracle_fails'
  const trouble = describeTrouble(outcome)
  if (trouble) return reject(reason, trouble)
  if (!isWon) return reject(reason, `With the change these do not pass: ${describeMissing(outcome, lists)}`)
  const [before, now] = [listIds((first ?? { outcome }).outcome), listIds(outcome)]
  const other = listDifferences(before, now)
  if (other.length <= Math.max(before.length, now.length) * UNSTABLE_MAX) return undefined
  return reject('oracle_flaky', `Not in every run there were: ${joinIds(other)}`)
}

/** Share of tests with unstable names, for example names that contain addresses or times. */
const UNSTABLE_MAX = 0.02

/** A verifier that sees more than the patch would judge agents by something else than it judges the solution by. */
export function checkAgentPatch({ isWon, outcome }: ValidationTrial, lists: TestLists): StageRejection | undefined {
  if (isWon) return undefined
  const detail = describeTrouble(outcome) ?? `these do not pass: ${describeMissing(outcome, lists)}`
  return reject('oracle_fails', `The change of the solution, made by an agent: ${detail}`)
}

export function summariseTrial({ reward, outcome, seconds }: ValidationTrial): ValidationRun {
  const ids = listIds(outcome).length
  const passed = listPassed(outcome).size
  return { reward, passed, notPassed: ids - passed, seconds }
}

function describeTrouble(outcome: SuiteOutcome | undefined): string | undefined {
  if (outcome === undefined) return 'The verifier left no report.'
  return outcome.kind === 'broken'
    ? `The tests could not be counted: ${outcome.reason}. ${cutText(outcome.detail)}`
    : undefined
}

const listIds = (outcome: SuiteOutcome | undefined): string[] =>
  outcome?.kind === 'ran' ? Object.keys(outcome.run.statuses) : []

const listPassed = (outcome: SuiteOutcome | undefined): Set<string> =>
  new Set(
    outcome?.kind === 'ran'
      ? Object.entries(outcome.run.statuses).flatMap(([id, status]) => (status === 'passed' ? [id] : []))
      : [],
  )

function describeMissing(outcome: SuiteOutcome | undefined, { failToPass, passToPass }: TestLists): string {
  const passed = listPassed(outcome)
  return joinIds([...failToPass, ...passToPass].filter((id) => !passed.has(id)))
}

function listDifferences(one: string[], other: string[]): string[] {
  const [left, right] = [new Set(one), new Set(other)]
  return [...left.symmetricDifference(right)].toSorted()
}

const LISTED_MAX = 5
const LETTERS_MAX = 2000

const joinIds = (ids: string[]): string =>
  cutText(
    `${ids.slice(0, LISTED_MAX).join(', ')}${ids.length > LISTED_MAX ? ` and ${ids.length - LISTED_MAX} more` : ''}.`,
  )

const cutText = (text: string): string => text.slice(0, LETTERS_MAX)

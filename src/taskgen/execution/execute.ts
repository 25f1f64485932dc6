import { findRunner } from '../../grading/languages/languages.ts'
import { runSuite } from '../../grading/run-suite.ts'
import type { HiddenTests, RunPlan, SuiteOutcome, SuiteRun, TestLists } from '../../grading/suite.ts'
import type { Image, Provider } from '../../sandboxes/sandbox.ts'
import { USUAL_SIZE } from '../environment/check-health.ts'
import { done, reject, type StageRejection, type StageResult, withEvidence } from '../stage-result.ts'
import { ablate } from './ablate.ts'
import { clockBombs, type Execution, type Judgement, judgeRuns, type Runs, type SuiteSummary } from './judge-runs.ts'
import { timeoutOf } from './plan-runs.ts'

export type ExecutionOrder = {
  image: Image
  /** The fix, as a patch in latin1. */
  source: string
  hidden: HiddenTests
  plan: RunPlan
  /** Of this machine. Output goes there. */
  folder: string
}

const REPEATS = 3
const SEED = 20
const MEDIAN_SECONDS_MAX = 180
/** Another year, another month more often than not, and another day of the week. */
const DAYS_AHEAD = 1111

/** One run of the tests, and how it is to be run. */
type Wish = { variant: SuiteSummary['variant']; isShuffled?: boolean; cpus?: number; daysAhead?: number }
type Matrix = { summaries: SuiteSummary[]; run(wish: Wish): Promise<SuiteRun | StageRejection> }

/**
 * Runs the tests on the base, on the base with the tests that landed, and on that with the fix, each time in a fresh
 * sandbox: once each, and what survives three times, in another order and with half the processors, and at last on a later
 * day. Throws SandboxUnavailable, which is no verdict.
 */
export async function execute(
  provider: Provider,
  order: ExecutionOrder,
  signal: AbortSignal,
): Promise<StageResult<Execution>> {
  const matrix = openMatrix(provider, order, signal)
  return withEvidence(await tryAll(provider, order, matrix, signal), { runs: matrix.summaries })
}

async function tryAll(
  provider: Provider,
  order: ExecutionOrder,
  matrix: Matrix,
  signal: AbortSignal,
): Promise<StageResult<Execution>> {
  const runs = await cheapCut(matrix)
  if ('kind' in runs) return runs
  const judged = await repeat(matrix, runs)
  if (judged.kind === 'rejected') return judged
  const medianSec = median(matrix.summaries.filter(({ variant }) => variant === 'fixed').map(({ seconds }) => seconds))
  if (medianSec > MEDIAN_SECONDS_MAX) return reject('suite_too_slow', `The tests take ${Math.round(medianSec)} s.`)
  const bomb = await tryLaterDay(matrix, judged.lists)
  if (bomb) return bomb
  const ablation = await ablate(provider, { ...order, failToPass: judged.lists.failToPass }, signal)
  if (ablation.necessary * 2 < ablation.groups)
    return reject(
      'weak_tests',
      `Without ${ablation.groups - ablation.necessary} of ${ablation.groups} parts of the fix all its tests pass.`,
    )
  const { lists, unstable, messages, failsByAssertion } = judged
  const plan = { ...order.plan, timeoutSec: timeoutOf(medianSec) }
  return done({ lists, plan, runs: matrix.summaries, unstable, messages, failsByAssertion, ablation, medianSec })
}

/** One run each. What cannot get better with more runs ends here; what one bad run may have done is looked at again. */
async function cheapCut(matrix: Matrix): Promise<Runs | StageRejection> {
  const base = await matrix.run({ variant: 'base' })
  if ('kind' in base) return base
  const tests = await matrix.run({ variant: 'tests' })
  if ('kind' in tests) return tests
  const fixed = await matrix.run({ variant: 'fixed' })
  if ('kind' in fixed) return fixed
  const runs: Runs = { base, tests: [tests], fixed: [fixed] }
  const judged = judgeRuns(runs)
  if (judged.kind === 'judged') return runs
  if (judged.reason !== 'p2f') return judged
  const again = await matrix.run({ variant: 'fixed' })
  if ('kind' in again) return again
  const twice: Runs = { ...runs, fixed: [fixed, again] }
  const second = judgeRuns(twice)
  return second.kind === 'rejected' && second.reason === 'p2f' ? second : twice
}

/** One of those with the fix in another order, and one with half the processors. */
async function repeat(matrix: Matrix, { base, tests, fixed }: Runs): Promise<Judgement | StageRejection> {
  const wishes: Wish[] = [
    ...Array.from({ length: REPEATS - tests.length }, () => ({ variant: 'tests' }) as const),
    { variant: 'fixed', isShuffled: true },
    { variant: 'fixed', cpus: USUAL_SIZE.cpus / 2 },
  ]
  const more = { tests: [...tests], fixed: [...fixed] }
  for (const wish of wishes) {
    const run = await matrix.run(wish)
    if ('kind' in run) return run
    more[wish.variant === 'tests' ? 'tests' : 'fixed'].push(run)
  }
  return judgeRuns({ base, ...more })
}

/**
 * Once, as a rule. What fails must pass by a clock that shows tomorrow, and then fail again: so it is neither the library
 * in between, nor a file whose real time is held against the clock, nor luck.
 */
async function tryLaterDay(matrix: Matrix, lists: TestLists): Promise<StageRejection | undefined> {
  const seen: Record<'tomorrow' | 'later', SuiteRun[]> = { tomorrow: [], later: [] }
  let bomb: StageRejection | undefined
  for (const daysAhead of [DAYS_AHEAD, 1, DAYS_AHEAD]) {
    const run = await matrix.run({ variant: 'fixed', daysAhead })
    if ('kind' in run) return run
    seen[daysAhead === 1 ? 'tomorrow' : 'later'].push(run)
    bomb = clockBombs(lists, seen)
    if (!bomb) return undefined
  }
  return bomb
}

function openMatrix(provider: Provider, order: ExecutionOrder, signal: AbortSignal): Matrix {
  const { image, source, hidden, plan, folder } = order
  const summaries: SuiteSummary[] = []
  const canShuffle = findRunner(plan.runner)?.shuffles ?? false
  return {
    summaries,
    async run(wish) {
      const { variant, cpus = USUAL_SIZE.cpus, daysAhead = null } = wish
      const isShuffled = (wish.isShuffled ?? false) && canShuffle
      const outcome = await runSuite(
        provider,
        {
          ...{ image, plan, folder, ...USUAL_SIZE, cpus, daysAhead, seed: isShuffled ? SEED : null },
          submission: variant === 'fixed' ? source : null,
          hidden: variant === 'base' ? null : hidden,
        },
        signal,
      )
      const run = ranOrRejected(wish, outcome)
      if (!('kind' in run)) summaries.push(summaryOf(run, { variant, isShuffled, cpus, daysAhead }))
      return run
    },
  }
}

const NOTHING: SuiteRun = { statuses: {}, messages: {}, exitCode: null, seconds: 0 }

/** Without the fix, or on another day, the tests need not even compile: then none of them passes. With it they must run. */
function ranOrRejected({ variant, daysAhead }: Wish, outcome: SuiteOutcome): SuiteRun | StageRejection {
  if (outcome.kind === 'ran') return outcome.run
  const { reason, detail } = outcome
  if (variant === 'tests' || daysAhead !== undefined) return NOTHING
  if (reason === 'patch_does_not_apply') return reject('patch_does_not_apply', detail)
  if (reason === 'timeout') return reject('suite_too_slow', detail)
  return reject(variant === 'base' ? 'suite_unhealthy' : 'no_f2p', `${reason}: ${detail}`)
}

function summaryOf(
  { statuses, seconds }: SuiteRun,
  how: Pick<SuiteSummary, 'variant' | 'isShuffled' | 'cpus' | 'daysAhead'>,
): SuiteSummary {
  const all = Object.values(statuses)
  const passed = all.filter((status) => status === 'passed').length
  const failed = all.filter((status) => status === 'failed' || status === 'errored').length
  return { ...how, passed, failed, seconds }
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0

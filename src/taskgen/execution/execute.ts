import { findRunner } from '../../grading/languages/languages.ts'
import { runSuite } from '../../grading/run-suite.ts'
import {
  cpuSecondsOf,
  type HiddenTests,
  type RunPlan,
  type SuiteOutcome,
  type SuiteRun,
  type TestLists,
} from '../../grading/suite.ts'
import type { Image, SandboxProvider } from '../../sandboxes/sandbox.ts'
import { SUITE_LIMITS } from '../environment/check-health.ts'
import { done, reject, rejectForTiming, type StageRejection, type StageResult } from '../stage-result.ts'
import {
  type Execution,
  type Judgement,
  judgeRuns,
  listSuspects,
  rejectClockBombs,
  type SuiteRuns,
  type SuiteSummary,
} from './judge-runs.ts'
import { computeTimeout, RUN_SECONDS_MAX } from './plan-runs.ts'
import { rejectWeakTests, tryVariants } from './try-variants.ts'

export type ExecutionInput = {
  image: Image
  /** The fix, as a patch in latin1. */
  source: string
  /** The fix with whole files as context. Default: `source`. */
  wideSource?: string | undefined
  hidden: HiddenTests
  plan: RunPlan
  /** Folder on this machine for output. */
  folder: string
  workspaceId?: string | undefined
}

/** Number of runs of each tree that is judged. */
const RUNS_PER_TREE = 3
/** Seed of the shuffled order. Any number will do. */
const SEED = 20
/** Maximum CPU time of the tests with the fix, as the median of its runs. */
const MEDIAN_CPU_SECONDS_MAX = 180
/** Suites that take more CPU time are run with fewer variants of the solution, because each variant is a run. */
const FEW_VARIANTS_CPU_SECONDS = 20
/** Maximum numbers of variants of the solution. */
const ALL_VARIANTS = { parts: 8, mutants: 8 }
const FEW_VARIANTS = { parts: 5, mutants: 3 }
/** Shifts the year, the day of the week and usually the month. */
const DAYS_AHEAD = 1111

/** Settings of one test run. `only`: ids of the tests to run. */
type SuiteVariant = {
  variant: SuiteSummary['variant']
  isShuffled?: boolean
  cpus?: number
  daysAhead?: number
  only?: readonly string[]
}
/** Runs the tests of a candidate in different settings, and collects a summary of each run. */
type SuiteMatrix = {
  summaries: SuiteSummary[]
  /** True if the runner can run single tests by their ids. */
  canSelect: boolean
  run(suite: SuiteVariant): Promise<SuiteRun | StageRejection>
}

/**
 * Runs the tests on three trees: the base, the base with the landed tests, and that with the fix. Each run has a fresh
 * sandbox. All are run once; if the result is usable, they are repeated in another order, with half the CPUs, and
 * finally with a later date. Throws SandboxUnavailable, which is not a verdict.
 */
export async function execute(
  provider: SandboxProvider,
  input: ExecutionInput,
  signal: AbortSignal,
): Promise<StageResult<Execution>> {
  const matrix = openMatrix(provider, input, signal)
  const result = await runAll(provider, input, matrix, signal)
  if (result.kind !== 'rejected') return result
  return { ...result, evidence: { runs: matrix.summaries, ...(result.evidence ?? {}) } }
}

async function runAll(
  provider: SandboxProvider,
  input: ExecutionInput,
  matrix: SuiteMatrix,
  signal: AbortSignal,
): Promise<StageResult<Execution>> {
  const runs = await runOnce(matrix)
  if ('kind' in runs) return runs
  const judgement = await runRepeats(matrix, runs)
  if (judgement.kind === 'rejected') return judgement
  const fixed = matrix.summaries.filter(({ variant }) => variant === 'fixed')
  const medianSec = median(fixed.map(({ seconds }) => seconds))
  const medianCpuSec = median(fixed.map(cpuSecondsOf))
  const slowRejection = rejectIfSlow(medianSec, medianCpuSec)
  if (slowRejection) return slowRejection
  const clockRejection = await runLaterDay(matrix, judgement.lists)
  if (clockRejection) return clockRejection
  const limits = medianCpuSec > FEW_VARIANTS_CPU_SECONDS ? FEW_VARIANTS : ALL_VARIANTS
  // Variants run with the timeout of the verifier, because an altered condition may never end a loop.
  const plan = { ...input.plan, timeoutSec: computeTimeout(medianSec) }
  const source = input.wideSource ?? input.source
  const tried = await tryVariants(provider, { ...input, source, plan, lists: judgement.lists, limits }, signal)
  if (tried.kind !== 'done') return tried
  const ablation = tried.value
  const rejection = rejectWeakTests(ablation)
  if (rejection) return rejection
  const { kind, ...facts } = judgement
  return done({ ...facts, plan, runs: matrix.summaries, ablation, medianSec })
}

function rejectIfSlow(medianSec: number, medianCpuSec: number): StageRejection | undefined {
  if (medianCpuSec > MEDIAN_CPU_SECONDS_MAX)
    return reject('suite_too_slow', `The tests take ${Math.round(medianCpuSec)} s of CPU time.`)
  if (medianSec > RUN_SECONDS_MAX)
    return rejectForTiming('suite_too_slow', `The tests take ${Math.round(medianSec)} s.`)
  return undefined
}

/**
 * Runs each variant once and rejects candidates that more runs cannot save. If a test fails only with the fix, that run is
 * repeated once, because the failure may be a coincidence.
 */
async function runOnce(matrix: SuiteMatrix): Promise<SuiteRuns | StageRejection> {
  const base = await matrix.run({ variant: 'base' })
  if ('kind' in base) return base
  const tests = await matrix.run({ variant: 'tests' })
  if ('kind' in tests) return tests
  const fixed = await matrix.run({ variant: 'fixed' })
  if ('kind' in fixed) return fixed
  const alone = await runSuspects(matrix, { base: [base], tests: [tests], alone: [], fixed: [fixed] })
  const runs: SuiteRuns = { base: [base], tests: [tests], alone, fixed: [fixed] }
  const judged = judgeRuns(runs)
  if (judged.kind === 'judged') return runs
  if (judged.reason !== 'p2f') return judged
  const repeated = await matrix.run({ variant: 'fixed' })
  if ('kind' in repeated) return repeated
  const repeatedRuns: SuiteRuns = { ...runs, fixed: [fixed, repeated] }
  const second = judgeRuns(repeatedRuns)
  return second.kind === 'rejected' && second.reason === 'p2f' ? second : repeatedRuns
}

/** Maximum number of tests that are selected by id. Bounds the command line of the runner. */
const SUSPECTS_MAX = 1000
const SINGLE_RUNS_MAX = 10

/**
 * Runs tests that may fail only after other tests (order-dependent failures) without all other tests. If only some of them
 * pass, one of the failed tests may make the others fail, so each failed test is then run by itself.
 */
async function runSuspects(matrix: SuiteMatrix, runs: SuiteRuns): Promise<SuiteRun[]> {
  const suspects = listSuspects(runs)
  if (!matrix.canSelect || suspects.length === 0 || suspects.length > SUSPECTS_MAX) return []
  const together = await runAlone(matrix, suspects)
  const rest = listSuspects({ ...runs, alone: together })
  if (rest.length === suspects.length || rest.length > SINGLE_RUNS_MAX) return together
  const single: SuiteRun[] = []
  for (const id of rest) single.push(...(await runAlone(matrix, [id])))
  return [...together, ...single]
}

/** Runs only these tests. Returns no run if the selection cannot be run. */
async function runAlone(matrix: SuiteMatrix, only: readonly string[]): Promise<SuiteRun[]> {
  const run = await matrix.run({ variant: 'alone', only })
  return 'kind' in run ? [] : [run]
}

/**
 * Repeats the runs with the fix: once shuffled, once with half the CPUs. If there are guards, the base is repeated too,
 * because only runs of the base show that a guard is stable.
 */
async function runRepeats(matrix: SuiteMatrix, first: SuiteRuns): Promise<Judgement | StageRejection> {
  const judged = judgeRuns(first)
  const hasGuards = judged.kind === 'judged' && judged.lists.guards.length > 0
  const repeat = (variant: 'base' | 'tests', count: number): SuiteVariant[] =>
    Array.from({ length: count }, () => ({ variant }))
  const suites: SuiteVariant[] = [
    ...repeat('base', hasGuards ? RUNS_PER_TREE - first.base.length : 0),
    ...repeat('tests', RUNS_PER_TREE - first.tests.length),
    { variant: 'fixed', isShuffled: true },
    { variant: 'fixed', cpus: SUITE_LIMITS.cpus / 2 },
  ]
  const all = { base: [...first.base], tests: [...first.tests], alone: [...first.alone], fixed: [...first.fixed] }
  for (const suite of suites) {
    const run = await matrix.run(suite)
    if ('kind' in run) return run
    all[suite.variant].push(run)
  }
  return judgeRuns(all)
}

/**
 * Runs the tests with a later date, usually once. Tests that fail there must pass with tomorrow's date and then fail
 * again. This excludes other causes: the library that shifts the clock, files whose real times are compared with the
 * clock, and chance.
 */
async function runLaterDay(matrix: SuiteMatrix, lists: TestLists): Promise<StageRejection | undefined> {
  const runs: Record<'tomorrow' | 'later', SuiteRun[]> = { tomorrow: [], later: [] }
  let rejection: StageRejection | undefined
  for (const daysAhead of [DAYS_AHEAD, 1, DAYS_AHEAD]) {
    const run = await matrix.run({ variant: 'fixed', daysAhead })
    if ('kind' in run) return run
    runs[daysAhead === 1 ? 'tomorrow' : 'later'].push(run)
    rejection = rejectClockBombs(lists, runs)
    if (!rejection) return undefined
  }
  return rejection
}

function openMatrix(provider: SandboxProvider, input: ExecutionInput, signal: AbortSignal): SuiteMatrix {
  const { image, source, hidden, plan, folder } = input
  const summaries: SuiteSummary[] = []
  const { shuffles = false, selects = false } = findRunner(plan.runner) ?? {}
  return {
    summaries,
    canSelect: selects,
    async run(suite) {
      const { variant, cpus = SUITE_LIMITS.cpus, daysAhead = null, only = null } = suite
      const isShuffled = (suite.isShuffled ?? false) && shuffles
      const outcome = await runSuite(
        provider,
        {
          image,
          plan,
          folder,
          ...SUITE_LIMITS,
          cpus,
          daysAhead,
          only,
          seed: isShuffled ? SEED : null,
          submission: variant === 'fixed' ? source : null,
          hidden: variant === 'base' ? null : hidden,
        },
        signal,
      )
      const run = toRunOrRejection(suite, outcome)
      if (!('kind' in run)) summaries.push(summarise(run, { variant, isShuffled, cpus, daysAhead }))
      return run
    },
  }
}

/** Returns a run without results. The message for the whole run explains why there are none. */
const emptyRun = (detail: string): SuiteRun => ({
  statuses: {},
  messages: { '<run>': detail },
  exitCode: null,
  seconds: 0,
})

/** Returns the run of a suite. One that did not run is a rejection, or an empty run without the fix or on another day. */
function toRunOrRejection({ variant, daysAhead }: SuiteVariant, outcome: SuiteOutcome): SuiteRun | StageRejection {
  if (outcome.kind === 'ran') return outcome.run
  const { reason, detail } = outcome
  if (variant === 'tests' || variant === 'alone' || daysAhead !== undefined) return emptyRun(detail)
  if (reason === 'patch_does_not_apply') return reject('patch_does_not_apply', detail)
  if (reason === 'timeout') return rejectForTiming('suite_too_slow', detail)
  return reject(variant === 'base' ? 'suite_unhealthy' : 'no_f2p', `${reason}: ${detail}`)
}

function summarise(
  run: SuiteRun,
  settings: Pick<SuiteSummary, 'variant' | 'isShuffled' | 'cpus' | 'daysAhead'>,
): SuiteSummary {
  const all = Object.values(run.statuses)
  const passed = all.filter((status) => status === 'passed').length
  const failed = all.filter((status) => status === 'failed' || status === 'errored').length
  return { ...settings, passed, failed, seconds: run.seconds, cpuSeconds: cpuSecondsOf(run) }
}

const median = (numbers: readonly number[]): number =>
  numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? 0

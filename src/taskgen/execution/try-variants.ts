import { findRunner } from '../../grading/languages/languages.ts'
import { runSuite } from '../../grading/run-suite.ts'
import {
  cpuSecondsOf,
  type HiddenTests,
  listRequired,
  type RunPlan,
  type SuiteOutcome,
  type TestLists,
} from '../../grading/suite.ts'
import type { Image, SandboxProvider } from '../../sandboxes/sandbox.ts'
import { SUITE_LIMITS } from '../environment/check-health.ts'
import { applyRules } from '../rule-threads.ts'
import { done, reject, type StageRejection, type StageResult } from '../stage-result.ts'
import type { VariantResults } from './judge-runs.ts'
import { listTargets } from './plan-runs.ts'
import type { SolutionVariant, VariantLimits } from './solution-variants.ts'

type TryVariantsInput = {
  image: Image
  source: string
  hidden: HiddenTests
  plan: RunPlan
  folder: string
  workspaceId?: string | undefined
  lists: TestLists
  limits: VariantLimits
}

/**
 * Runs the tests of the pull request with variants of its solution. A variant is noticed if a required test fails, or
 * the tests do not run at all. A variant that passes runs all tests that judge a solution before it counts as a survivor.
 */
export async function tryVariants(
  provider: SandboxProvider,
  input: TryVariantsInput,
  signal: AbortSignal,
): Promise<StageResult<VariantResults>> {
  const { source, limits, workspaceId } = input
  const derived = await applyRules('deriveVariants', { source, limits }, workspaceId)
  if (derived.kind !== 'done') return derived
  const variants = derived.value
  const parts = variants.filter(({ kind }) => kind === 'part')
  // Earlier runs have shown that the tests fail without the solution, so a single part needs no run.
  const tried = parts.length === 1 ? variants.filter(({ kind }) => kind === 'mutant') : variants
  const outcomes: VariantOutcome[] = []
  const spent = { runs: 0, cpuSeconds: 0 }
  for (const variant of tried) {
    const { isPassed, runs, cpuSeconds } = await trySolution(provider, { ...input, submission: variant.patch }, signal)
    spent.runs += runs
    spent.cpuSeconds += cpuSeconds
    outcomes.push({ variant, isPassed })
  }
  const cpuSeconds = Math.round(spent.cpuSeconds * 10) / 10
  return done({ ...summariseVariants(outcomes), runs: spent.runs, cpuSeconds })
}

type VariantOutcome = { variant: SolutionVariant; isPassed: boolean }

/** Counts parts and mutants, and those that the tests notice. Without parts that were tried, the whole fix is one. */
export function summariseVariants(outcomes: readonly VariantOutcome[]): Omit<VariantResults, 'runs' | 'cpuSeconds'> {
  const parts = outcomes.filter(({ variant }) => variant.kind === 'part')
  const mutants = outcomes.filter(({ variant }) => variant.kind === 'mutant')
  const survivors = outcomes.filter(({ isPassed }) => isPassed)
  const edits = [...Map.groupBy(parts, ({ variant }) => variant.edit).values()]
  const needed = edits.filter((places) => places.filter(({ isPassed }) => !isPassed).length * 2 >= places.length)
  // Code that the fix removes may be unused, and then a solution that keeps it is right.
  const unusedRemovals = edits.filter((places) => places.every(isUnusedRemoval))
  return {
    groups: parts.length === 0 ? 1 : edits.length - unusedRemovals.length,
    necessary: parts.length === 0 ? 1 : needed.length,
    mutants: mutants.length,
    noticed: mutants.filter(({ isPassed }) => !isPassed).length,
    survivors: survivors.map(({ variant: { patch, edit, ...variant } }) => variant),
  }
}

const isUnusedRemoval = ({ variant, isPassed }: VariantOutcome): boolean => isPassed && variant.before.trim() === ''

type TrySolutionInput = Omit<TryVariantsInput, 'source' | 'limits'> & { submission: string }

/**
 * Judges a solution by all tests of the plan. If these are the whole suite, the test files of the pull request run first,
 * because most wrong solutions fail there.
 */
export async function trySolution(
  provider: SandboxProvider,
  { image, submission, hidden, plan, folder, lists }: TrySolutionInput,
  signal: AbortSignal,
): Promise<{ isPassed: boolean; runs: number; cpuSeconds: number }> {
  const runner = findRunner(plan.runner)
  const pullRequestTargets = runner ? listTargets(runner, hidden) : []
  const plansWholeSuite = plan.targets.length === 0
  const startsWithPullRequest = plansWholeSuite && pullRequestTargets.length > 0
  const run = (targets: string[]) =>
    runSuite(
      provider,
      { image, submission, hidden, seed: null, folder, plan: { ...plan, targets }, ...SUITE_LIMITS },
      signal,
    )
  const required = listRequired(lists)
  const first = await run(startsWithPullRequest ? pullRequestTargets : plan.targets)
  if (!startsWithPullRequest)
    return { isPassed: passes(first, required, required), runs: 1, cpuSeconds: readCpuSeconds(first) }
  if (!passes(first, lists.failToPass, required)) return { isPassed: false, runs: 1, cpuSeconds: readCpuSeconds(first) }
  const second = await run(plan.targets)
  return {
    isPassed: passes(second, required, required),
    runs: 2,
    cpuSeconds: readCpuSeconds(first) + readCpuSeconds(second),
  }
}

const readCpuSeconds = (outcome: SuiteOutcome): number => (outcome.kind === 'ran' ? cpuSecondsOf(outcome.run) : 0)

/** Returns true if all of `expected` passed and none of `required` is reported with another status. */
function passes(outcome: SuiteOutcome, expected: readonly string[], required: readonly string[]): boolean {
  if (outcome.kind === 'broken') return false
  const { statuses } = outcome.run
  const isPassed = (id: string) => Object.hasOwn(statuses, id) && statuses[id] === 'passed'
  return expected.every(isPassed) && required.every((id) => !Object.hasOwn(statuses, id) || isPassed(id))
}

/** Rejects tests that notice fewer than half of the parts, or fewer than half of all variants. */
export function rejectWeakTests(results: VariantResults): StageRejection | undefined {
  const { groups, necessary, mutants, noticed, survivors } = results
  const isWeak = necessary * 2 < groups || (necessary + noticed) * 2 < groups + mutants
  if (!isWeak) return undefined
  const locations = survivors.slice(0, LOCATIONS_MAX).map(({ path, line }) => `${path}:${line}`)
  return reject(
    'weak_tests',
    `Without ${groups - necessary} of ${groups} parts of the fix, and with ${mutants - noticed} of ${mutants} altered lines, all tests pass: ${locations.join(', ')}.`,
    { survivors },
  )
}

const LOCATIONS_MAX = 10

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
import { SUITE_SIZE } from '../environment/check-health.ts'
import { applyRules } from '../rule-threads.ts'
import { done, reject, type StageRejection, type StageResult } from '../stage-result.ts'
import type { VariantResults } from './judge-runs.ts'
import { listTargets } from './plan-runs.ts'
import type { VariantLimits } from './solution-variants.ts'

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
  const results: VariantResults = {
    groups: Math.max(1, parts.length),
    necessary: parts.length <= 1 ? 1 : 0,
    mutants: variants.length - parts.length,
    noticed: 0,
    survivors: [],
    runs: 0,
    cpuSeconds: 0,
  }
  for (const { patch, ...variant } of tried) {
    const { isPassed, runs, cpuSeconds } = await trySolution(provider, { ...input, submission: patch }, signal)
    results.runs += runs
    results.cpuSeconds += cpuSeconds
    if (isPassed) results.survivors.push(variant)
    else if (variant.kind === 'part') results.necessary += 1
    else results.noticed += 1
  }
  return done({ ...results, cpuSeconds: Math.round(results.cpuSeconds * 10) / 10 })
}

type TrySolutionInput = Omit<TryVariantsInput, 'source' | 'limits'> & { submission: string }

/** Judges a solution: first by the test files of the pull request, then by all tests of the plan. */
export async function trySolution(
  provider: SandboxProvider,
  { image, submission, hidden, plan, folder, lists }: TrySolutionInput,
  signal: AbortSignal,
): Promise<{ isPassed: boolean; runs: number; cpuSeconds: number }> {
  const runner = findRunner(plan.runner)
  const ownTargets = runner ? listTargets(runner, hidden) : []
  const hasOwnTargets = plan.targets.length === 0 && ownTargets.length > 0
  const run = (targets: string[]) =>
    runSuite(
      provider,
      { image, submission, hidden, seed: null, folder, plan: { ...plan, targets }, ...SUITE_SIZE },
      signal,
    )
  const required = listRequired(lists)
  const first = await run(hasOwnTargets ? ownTargets : plan.targets)
  if (!hasOwnTargets) return { isPassed: passes(first, required, required), runs: 1, cpuSeconds: readCpuSeconds(first) }
  if (!passes(first, lists.failToPass, required)) return { isPassed: false, runs: 1, cpuSeconds: readCpuSeconds(first) }
  const second = await run(plan.targets)
  return {
    isPassed: passes(second, required, required),
    runs: 2,
    cpuSeconds: readCpuSeconds(first) + readCpuSeconds(second),
  }
}

const readCpuSeconds = (outcome: SuiteOutcome): number => (outcome.kind === 'ran' ? cpuSecondsOf(outcome.run) : 0)

/** True if all of `expected` passed and none of `required` was seen to fail. */
function passes(outcome: SuiteOutcome, expected: readonly string[], required: readonly string[]): boolean {
  if (outcome.kind === 'broken') return false
  const { statuses } = outcome.run
  const isPassed = (id: string) => Object.hasOwn(statuses, id) && statuses[id] === 'passed'
  return expected.every(isPassed) && required.every((id) => !Object.hasOwn(statuses, id) || isPassed(id))
}

/**
 * Tests are too weak if fewer than half of the parts, or fewer than half of all variants, are noticed. A part that only
 * removes code and is not noticed does not count: what is left may be unused, and then a solution is right with it.
 */
export function findWeakness({
  groups,
  necessary,
  mutants,
  noticed,
  survivors,
}: VariantResults): StageRejection | undefined {
  const unusedRemovals = survivors.filter(({ kind, before }) => kind === 'part' && before.trim() === '').length
  const parts = groups - unusedRemovals
  const isWeak = necessary * 2 < parts || (necessary + noticed) * 2 < parts + mutants
  if (!isWeak) return undefined
  const locations = survivors.slice(0, LOCATIONS_MAX).map(({ path, line }) => `${path}:${line}`)
  return reject(
    'weak_tests',
    `Without ${groups - necessary} of ${groups} parts of the fix, and with ${mutants - noticed} of ${mutants} altered lines, all tests pass: ${locations.join(', ')}.`,
    { survivors },
  )
}

const LOCATIONS_MAX = 10

import { findRunner } from '../../grading/languages/languages.ts'
import { runSuite } from '../../grading/run-suite.ts'
import type { HiddenTests, RunPlan, SuiteOutcome } from '../../grading/suite.ts'
import type { Image, SandboxProvider } from '../../sandboxes/sandbox.ts'
import { SUITE_SIZE } from '../environment/check-health.ts'
import { omitEachGroup } from './hunk-groups.ts'
import type { Execution } from './judge-runs.ts'
import { listTargets } from './plan-runs.ts'

export type AblationInput = {
  image: Image
  source: string
  hidden: HiddenTests
  plan: RunPlan
  folder: string
  failToPass: readonly string[]
}

/**
 * How many parts of the fix its tests need: each is left out alone. One without which the tests do not compile, hang or
 * leave no report is needed too. A fix of one part is needed as a whole, which has been seen before.
 */
export async function ablate(
  provider: SandboxProvider,
  order: AblationInput,
  signal: AbortSignal,
): Promise<Execution['ablation']> {
  const { image, source, hidden, plan, folder, failToPass } = order
  const patches = omitEachGroup(source)
  if (patches.length <= 1) return { groups: 1, necessary: 1 }
  const runner = findRunner(plan.runner)
  const targets = runner ? listTargets(runner, hidden) : []
  const narrow = { ...plan, targets: targets.length === 0 ? plan.targets : targets }
  let necessary = 0
  for (const submission of patches) {
    const more = { hidden, seed: null, folder, ...SUITE_SIZE }
    const outcome = await runSuite(provider, { image, submission, plan: narrow, ...more }, signal)
    if (isNecessary(outcome, failToPass)) necessary += 1
  }
  return { groups: patches.length, necessary }
}

const isNecessary = (outcome: SuiteOutcome, failToPass: readonly string[]): boolean =>
  outcome.kind === 'broken' || failToPass.some((id) => outcome.run.statuses[id] !== 'passed')

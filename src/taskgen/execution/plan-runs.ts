import type { Runner } from '../../grading/languages/language.ts'
import type { HiddenTests, RunPlan, ServicePlan } from '../../grading/suite.ts'

/** Maximum CPU time of a suite that is run completely each time. More pass-to-pass tests make a better task. */
const WHOLE_SUITE_CPU_SECONDS_MAX = 60
export const RUN_SECONDS_MAX = 600
const RUN_SECONDS_MIN = 120
/** Ratio of the timeout to the measured duration. */
const TIMEOUT_FACTOR = 4

type PlanInput = {
  runner: Runner
  hidden: HiddenTests
  /** CPU time of the whole suite on the base. Elapsed time would depend on the load of the host. */
  suiteCpuSeconds: number
  services?: ServicePlan | undefined
}

/** Selects the tests to run: all of them, or only those of the pull request if the whole suite is slow. */
export function planRuns({ runner, hidden, suiteCpuSeconds, services }: PlanInput): RunPlan {
  const targets = suiteCpuSeconds <= WHOLE_SUITE_CPU_SECONDS_MAX ? [] : listTargets(runner, hidden)
  return { runner: runner.id, prepare: [...runner.prepare], targets, timeoutSec: RUN_SECONDS_MAX, services }
}

/** Lists the test files of the pull request that the runner can run by themselves. */
export const listTargets = ({ isTarget }: Pick<Runner, 'isTarget'>, { files }: HiddenTests): string[] =>
  files
    .map(({ path }) => path)
    .filter(isTarget)
    .sort()

/** Computes the verifier timeout from measured durations. */
export const computeTimeout = (medianSec: number): number =>
  Math.min(RUN_SECONDS_MAX, Math.max(RUN_SECONDS_MIN, Math.ceil(TIMEOUT_FACTOR * medianSec)))

import type { Runner } from '../../grading/runners/runner.ts'
import type { HiddenTests, RunPlan } from '../../grading/suite.ts'

/** Up to here all tests are run each time: the more that must stay right, the better. */
const WHOLE_SUITE_SECONDS = 60
const RUN_SECONDS_MAX = 600
const RUN_SECONDS_MIN = 120
const HEADROOM = 4

export type PlanOrder = {
  runner: Runner
  hidden: HiddenTests
  /** What all tests take on the base. */
  suiteSeconds: number
}

/** Which tests are run. Those of the pull request alone where all of them would take long. */
export function planRuns({ runner, hidden, suiteSeconds }: PlanOrder): RunPlan {
  const targets = suiteSeconds <= WHOLE_SUITE_SECONDS ? [] : targetsOf(runner, hidden)
  return { runner: runner.id, prepare: [...runner.prepare], targets, timeoutSec: RUN_SECONDS_MAX }
}

export const targetsOf = ({ isTarget }: Pick<Runner, 'isTarget'>, { files }: HiddenTests): string[] =>
  files
    .map(({ path }) => path)
    .filter(isTarget)
    .sort()

/** What a verifier is given, by what runs have taken. */
export const timeoutOf = (medianSec: number): number =>
  Math.min(RUN_SECONDS_MAX, Math.max(RUN_SECONDS_MIN, Math.ceil(HEADROOM * medianSec)))

import { runSuite } from '../../grading/run-suite.ts'
import type { RunPlan } from '../../grading/suite.ts'
import { GENERATED_LIMITS } from '../../harbor/default-limits.ts'
import type { Image, SandboxProvider } from '../../sandboxes/sandbox.ts'
import { done, type StageResult } from '../stage-result.ts'
import { type Health, type HealthRules, judgeHealth } from './judge-health.ts'

export type HealthCheckOptions = {
  image: Image
  runner: string
  prepare: readonly string[]
  /** Folder on this machine for output. */
  folder: string
  rules?: HealthRules
}

/** Resources of every test run. */
export const SUITE_SIZE = { cpus: GENERATED_LIMITS.cpus, memoryMb: GENERATED_LIMITS.memoryMb } as const

const SUITE_SECONDS_MAX = 600

/** Runs all tests of the base twice, offline. Throws SandboxUnavailable. */
export async function checkHealth(
  provider: SandboxProvider,
  { image, runner, prepare, folder, rules }: HealthCheckOptions,
  signal: AbortSignal,
): Promise<StageResult<Health>> {
  const plan: RunPlan = { runner, prepare: [...prepare], targets: [], timeoutSec: SUITE_SECONDS_MAX }
  const order = { image, submission: null, hidden: null, plan, seed: null, folder, ...SUITE_SIZE }
  const first = await runSuite(provider, order, signal)
  // A broken run is not repeated.
  const second = first.kind === 'broken' ? first : await runSuite(provider, order, signal)
  const judged = judgeHealth(first, second, rules)
  return 'kind' in judged ? judged : done(judged)
}

import type { SuiteOutcome } from '../../grading/suite.ts'
import type { Harness } from '../../harnesses/harness.ts'
import { type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import type { TrialRequest } from '../../trials/bench.ts'
import { runTrial } from '../../trials/trial.ts'
import { readReport } from './read-report.ts'
import type { ValidationTrial } from './validation.ts'

/** Throws SandboxUnavailable: a broken sandbox says nothing of a task. */
export async function runValidationTrial(
  provider: SandboxProvider,
  request: Omit<TrialRequest, 'harness' | 'onVerified'>,
  harness: Harness,
): Promise<ValidationTrial> {
  let outcome: SuiteOutcome | undefined
  const onVerified = async (folder: string) => {
    outcome = await readReport(folder)
  }
  const record = await runTrial(provider, { ...request, harness, onVerified })
  if (record.class === 'sandbox_error') throw new SandboxUnavailable(record.error ?? 'The sandbox broke.')
  return {
    isWon: record.state === 'passed',
    reward: record.reward,
    exitCode: record.steps[0]?.agent?.code ?? null,
    outcome,
    seconds: Math.round(record.timings.total * 10) / 10,
    isolation: record.isolation,
  }
}

import { join } from 'node:path'
import { nop, oracle } from '../harnesses/reference.ts'
import { errorText } from '../platform/error-text.ts'
import type { SandboxProvider } from '../sandboxes/sandbox.ts'
import type { TrialRequest } from './bench.ts'
import { blamedOutcome } from './outcome.ts'
import type { TrialRecord } from './record.ts'
import { runThrough } from './run-through.ts'

/**
 * Runs one harness on one task. A failure before the agent begins, or a proven outage, is an outcome of its own and never
 * a zero. Every other failure after the agent has begun is decided by a control run without the agent: if that is scored,
 * the agent scores 0. Throws for errors that a caller can fix before anything ran, and when it is aborted; everything it
 * started is gone then.
 */
export async function runTrial(provider: SandboxProvider, request: TrialRequest): Promise<TrialRecord> {
  const record = await runThrough(provider, request)
  if (request.harness.isControl || !isDoubtful(record)) return record
  const control = request.isProven ? undefined : await runControl(provider, request)
  if (control?.state !== 'errored') return blamed(request, record)
  const error = `The task itself does not get further: ${control.error}`
  return { ...record, state: 'errored', class: control.class, reward: null, rewards: {}, error }
}

/** There is no verdict, or none on all that the agent left. */
const isDoubtful = ({ class: kind, steps }: TrialRecord): boolean =>
  kind === 'verifier_error' || steps.some(({ notes }) => notes.length > 0)

type Control = Pick<TrialRecord, 'state' | 'class' | 'error'>

/** Runs the same trial without an agent. If it is scored, the failure was caused by the agent. */
async function runControl(provider: SandboxProvider, request: TrialRequest): Promise<Control> {
  const { model: _, ...others } = request
  const harness = request.task.steps.some(({ solution }) => solution) ? oracle : nop
  const outputFolder = join(request.outputFolder, 'control')
  try {
    return await runThrough(provider, { ...others, harness, outputFolder, onPhase: () => {} })
  } catch (error) {
    request.signal.throwIfAborted()
    return { state: 'errored', class: 'operator_error', error: errorText(error) }
  }
}

/** Scores 0 for a step without a verdict: an agent cannot take its trial out of the count. */
function blamed({ task }: TrialRequest, record: TrialRecord): TrialRecord {
  if (record.class !== 'verifier_error') return record
  const steps = record.steps.map((step) =>
    step.error === null ? step : { ...step, notes: [...step.notes, `There is no verdict. ${step.error}`] },
  )
  return { ...record, steps, ...blamedOutcome(steps, task.rewardStrategy) }
}

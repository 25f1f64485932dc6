import { join } from 'node:path'
import { nop } from '../harnesses/nop.ts'
import { oracle } from '../harnesses/oracle.ts'
import type { Provider } from '../sandboxes/sandbox.ts'
import type { TrialRequest } from './bench.ts'
import { blamedOutcome } from './outcome.ts'
import type { TrialRecord } from './record.ts'
import { runThrough } from './run-through.ts'

/**
 * Runs one harness on one task. A sandbox that broke is an outcome of its own, and never a zero. Throws for what a caller
 * can mend before anything ran, and when it is aborted; what it started is gone then.
 */
export async function runTrial(provider: Provider, request: TrialRequest): Promise<TrialRecord> {
  const record = await runThrough(provider, request)
  if (request.harness.isOfTheTask || !isDoubtful(record)) return record
  const control = request.isProven ? undefined : await runControl(provider, request)
  if (control?.state !== 'errored') return blamed(request, record)
  const error = `The task itself does not get further: ${control.error}`
  return { ...record, state: 'errored', class: control.class, reward: null, rewards: {}, error }
}

/** There is no verdict, or none on all that the agent left. */
const isDoubtful = ({ class: kind, steps }: TrialRecord): boolean =>
  kind === 'verifier_error' || steps.some(({ notes }) => notes.length > 0)

/** The same trial without an agent. Where it is scored, the agent's was spoiled by what the agent left. */
async function runControl(provider: Provider, request: TrialRequest): Promise<TrialRecord> {
  const { model: _, ...others } = request
  const harness = request.task.steps.some(({ solution }) => solution) ? oracle : nop
  const outputFolder = join(request.outputFolder, 'control')
  return runThrough(provider, { ...others, harness, outputFolder, onPhase: () => {} })
}

/** Whatever an agent left is its own doing: it cannot take itself out of the count. */
function blamed({ task }: TrialRequest, record: TrialRecord): TrialRecord {
  if (record.class !== 'verifier_error') return record
  const steps = record.steps.map((step) =>
    step.error === null ? step : { ...step, notes: [...step.notes, `There is no verdict. ${step.error}`] },
  )
  return { ...record, steps, ...blamedOutcome(steps, task.rewardStrategy) }
}

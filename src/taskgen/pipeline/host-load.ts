import { availableParallelism, loadavg } from 'node:os'
import type { StageResult } from '../stage-result.ts'
import { STAGES, type Stage, type Stages } from './stage.ts'

/** Waiting processes per processor, averaged over five minutes, from which on timings say nothing about a candidate. */
const BUSY_LOAD = 1.5
const RETRY_MS = 15 * 60_000

/** Returns stages that defer, while this machine is busy, every candidate that its slowness alone may have rejected. */
export function deferWhileBusy(stages: Stages, isBusy: () => boolean = isHostBusy): Stages {
  const wrap = (stage: Stage): Stage => ({
    ...stage,
    run: async (state, context, signal) => deferIfBusy(await stage.run(state, context, signal), isBusy()),
  })
  return Object.fromEntries(STAGES.map((name) => [name, wrap(stages[name])])) as Stages
}

/** True if processes have been waiting for processors of this machine during the last minutes. */
export const isHostBusy = (load: number = loadavg()[1] ?? 0, processors: number = availableParallelism()): boolean =>
  load > processors * BUSY_LOAD

function deferIfBusy<T>(result: StageResult<T>, isBusy: boolean): StageResult<T> {
  if (result.kind !== 'rejected' || !result.isLoadSensitive || !isBusy) return result
  const detail = `The machine was too busy for a verdict. Retried when it is less busy. ${result.detail}`
  return { kind: 'deferred', reason: 'sandbox', detail, retryAfterMs: RETRY_MS }
}

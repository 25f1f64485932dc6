import { expect, test } from 'vitest'
import { reject, rejectForTiming, type StageRejection } from '../stage-result.ts'
import type { CandidateState, Stage, StageContext, Stages } from './stage.ts'
import { deferWhileBusy, isHostBusy } from './stages/stages.ts'

test('a host is busy when processes wait for its processors', () => {
  const loads = [isHostBusy(2, 2), isHostBusy(3, 2), isHostBusy(3.1, 2), isHostBusy(20, 16)]
  expect(loads).toEqual([false, false, true, false])
})

/** Runs an execution stage that ends like this, on a busy machine or an idle one. */
function run(ending: StageRejection, isBusy: boolean) {
  const execution: Stage = { version: 1, needs: [], cacheInputs: () => null, run: async () => ending }
  const stages = deferWhileBusy({ execution } as Partial<Stages> as Stages, () => isBusy)
  return stages.execution.run({} as CandidateState, {} as StageContext, new AbortController().signal)
}

test('a time limit rejects no candidate while the host is busy', async () => {
  const late = rejectForTiming('suite_too_slow', 'It took 700 s.')
  expect(await run(late, true)).toMatchObject({ kind: 'deferred', reason: 'sandbox' })
  expect(await run(late, false)).toBe(late)
})

test('other verdicts do not depend on the load', async () => {
  const wrong = reject('no_f2p', 'No test fails before the fix.')
  expect(await run(wrong, true)).toBe(wrong)
})

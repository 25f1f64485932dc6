import { setTimeout as wait } from 'node:timers/promises'
import type { Healthcheck } from '../harbor/task.ts'
import { inReason } from './limits.ts'

export type Patience = Omit<Healthcheck, 'command'>

/** The environment of the task did not get as far as it must before an agent can be judged in it. Never a verdict. */
export class NeverReady extends Error {
  override name = 'NeverReady'
}

/**
 * Asks until the answer is yes. Failures in the start period do not count; after it, so many in a row are the end, as
 * in Harbor.
 */
export async function isHealthy(
  ask: () => Promise<boolean>,
  { intervalSec, startPeriodSec, startIntervalSec, retries }: Patience,
  signal: AbortSignal,
): Promise<boolean> {
  const begun = performance.now()
  for (let failures = 0; ; ) {
    const starting = performance.now() - begun < startPeriodSec * 1000
    if (await ask()) return true
    signal.throwIfAborted()
    if (!starting) failures += 1
    if (!starting && failures >= retries) return false
    await wait(inReason(starting ? startIntervalSec : intervalSec) * 1000, undefined, { signal })
  }
}

/** How long it may take until the answer is no, at the most. */
export const patienceSec = ({ intervalSec, timeoutSec, startPeriodSec, startIntervalSec, retries }: Patience): number =>
  startPeriodSec + startIntervalSec + timeoutSec + (retries + 1) * (intervalSec + timeoutSec)

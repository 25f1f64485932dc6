import type { Db } from '../db/db.ts'
import { admit } from './admission.ts'
import { type ClaimedJob, type Claimer, lockClaims, queueQuery, recordStarts, takeQuery } from './sql.ts'

/** Options of a claim. Undefined `startsPerSecond` or `memoryMb` means no limit. */
export type ClaimOptions = Omit<Claimer, 'host'> & {
  host?: string | undefined
  startsPerSecond?: number | undefined
  memoryMb?: number | undefined
}

export type ClaimResult = {
  jobs: ClaimedJob[]
  /** Time until the host may start another job, if it has used up its start rate. */
  nextStartMs: number | undefined
}

const SECOND_MS = 1_000
const EMPTY_QUEUE = { queueClasses: [], running: [], limits: [], turns: [], memoryMbTaken: 0, startsMsAgo: [] }

/**
 * Claims jobs for the free slots of a worker. The claims of all workers run one after another: limits can only be exact
 * when each claim sees every running job and every start of its host. Uses statement time and not transaction time,
 * because the transaction may have waited for the lock.
 */
export async function claim(db: Db, options: ClaimOptions): Promise<ClaimResult> {
  const { slots, startsPerSecond = Number.POSITIVE_INFINITY, memoryMb = Number.POSITIVE_INFINITY } = options
  const claimer = { ...options, host: options.host ?? '' }
  return db.transaction().execute(async (tx) => {
    await lockClaims(tx)
    const { rows: queues } = await queueQuery(claimer).execute(tx)
    const { startsMsAgo = [], ...queue } = queues[0] ?? EMPTY_QUEUE
    const starts = startsPerSecond - startsMsAgo.length
    const admission = admit(queue, { slots, starts, memoryMb })
    const { rows: jobs } = admission.jobCounts.size > 0 ? await takeQuery(claimer, admission).execute(tx) : { rows: [] }
    const started = jobs.filter((job) => job.memoryMb > 0).length
    if (started > 0 && startsPerSecond < Number.POSITIVE_INFINITY) await recordStarts(tx, claimer.host, started)
    return { jobs, nextStartMs: started < starts ? undefined : SECOND_MS - (startsMsAgo[0] ?? 0) }
  })
}

import type { Db } from '../db/db.ts'
import { admit, type Room } from './admission.ts'
import { type ClaimedJob, type Claimer, lockClaims, noteStarts, queueQuery, takeQuery } from './sql.ts'

/** Without `startsPerSecond` or `memoryMb` there is room for all. */
export type Claim = Omit<Claimer, 'host'> & { host?: string; startsPerSecond?: number } & Partial<
    Pick<Room, 'memoryMb'>
  >

export type Claimed = {
  jobs: ClaimedJob[]
  /** When the host may start one more, if it has none left now. */
  nextStartMs: number | undefined
}

const SECOND_MS = 1_000

/**
 * All claims of all workers happen one after another. Only so can limits be exact: each sees every job that runs, and
 * every start of its host. Times are those of statements and not of the transaction, which may have waited for its turn.
 */
export async function claim(db: Db, wish: Claim): Promise<Claimed> {
  const { slots, startsPerSecond = Number.POSITIVE_INFINITY, memoryMb = Number.POSITIVE_INFINITY } = wish
  const claimer = { host: '', ...wish }
  return db.transaction().execute(async (tx) => {
    await lockClaims(tx)
    const { rows: queues } = await queueQuery(claimer).execute(tx)
    const { startsMsAgo = [], ...queue } = queues[0] ?? NOTHING
    const starts = startsPerSecond - startsMsAgo.length
    const admitted = admit(queue, { slots, starts, memoryMb })
    const { rows: jobs } = admitted.lanes.size > 0 ? await takeQuery(claimer, admitted).execute(tx) : { rows: [] }
    const weighed = jobs.filter((job) => job.memoryMb > 0).length
    if (weighed > 0 && startsPerSecond < Number.POSITIVE_INFINITY) await noteStarts(tx, claimer.host, weighed)
    return { jobs, nextStartMs: weighed < starts ? undefined : SECOND_MS - (startsMsAgo[0] ?? 0) }
  })
}

const NOTHING = { lanes: [], running: [], limits: [], turns: [], memoryMbTaken: 0, startsMsAgo: [] }

import { sql } from 'kysely'
import type { Log } from '../log.ts'
import type { Db } from './db.ts'

/**
 * Maximum difference between the clocks of a process and of the database. Grants, leases and queues compare times of both:
 * with a clock that is a day late, every model call would be refused as expired, and its trial would score 0.
 */
const CLOCK_SKEW_MAX_MS = 60_000

/** Returns by how many milliseconds a clock is ahead of the database's, or 0 if the query took longer than that. */
export async function measureClockSkew(db: Db, now: () => number = Date.now): Promise<number> {
  const started = performance.now()
  const { rows } = await sql<{ ms: number }>`
    select (extract(epoch from clock_timestamp()) * 1000)::float8 as ms`.execute(db)
  const elapsed = performance.now() - started
  const skew = now() - elapsed / 2 - (rows[0]?.ms ?? 0)
  return Math.abs(skew) <= elapsed ? 0 : Math.round(skew)
}

export const isClockWrong = (skewMs: number): boolean => Math.abs(skewMs) > CLOCK_SKEW_MAX_MS

export const describeClockSkew = (skewMs: number): string =>
  `The clock of this machine is ${Math.round(Math.abs(skewMs) / 1000)} s ${skewMs > 0 ? 'ahead of' : 'behind'} the database's.`

/** Throws if the clock is wrong: sandboxes of other workers would seem to be past their deadline, and thus abandoned. */
export async function requireRightClock(db: Db, now?: () => number): Promise<void> {
  const skewMs = await measureClockSkew(db, now)
  if (isClockWrong(skewMs)) throw new Error(`${describeClockSkew(skewMs)} Set it, for example with NTP.`)
}

type ClockWatch = {
  /** False while the clocks differ too much. The process must not start jobs then. */
  isRight(): boolean
  stop(): Promise<void>
}

type ClockWatchOptions = { db: Db; log: Pick<Log, 'error' | 'info'>; everyMs?: number; now?: () => number }

const WATCH_MS = 15_000

/**
 * Compares the clock of this process with the database's, first before it returns and then every `everyMs`. While the
 * database does not respond, the last result stays.
 */
export async function watchClock({ db, log, everyMs = WATCH_MS, now }: ClockWatchOptions): Promise<ClockWatch> {
  let isRight = true
  const compare = async (): Promise<void> => {
    const skewMs = await measureClockSkew(db, now)
    const wasRight = isRight
    isRight = !isClockWrong(skewMs)
    if (wasRight && !isRight)
      log.error({ skewMs }, `${describeClockSkew(skewMs)} No jobs are started until it is set; use NTP`)
    if (!wasRight && isRight) log.info({ skewMs }, 'the clock of this machine is right again')
  }
  const compareIfPossible = () => compare().catch(() => undefined)
  let current = compareIfPossible()
  await current
  const timer = setInterval(() => {
    current = current.then(compareIfPossible)
  }, everyMs)
  return {
    isRight: () => isRight,
    async stop() {
      clearInterval(timer)
      await current
    },
  }
}

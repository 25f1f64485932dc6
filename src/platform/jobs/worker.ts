import { hostname } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type Database, type Db, executePrepared } from '../db/db.ts'
import { createWakeSignal, listenTo, type WakeSignal } from '../db/notices.ts'
import { derivedId, newId } from '../ids.ts'
import { hasProcessEnded } from '../processes.ts'
import { admit } from './admission.ts'
import { defineRecurringJob, type JobHandler, type JobLog, WorkerStopped } from './jobs.ts'
import { createLease, type Lease, loseLease, sendHeartbeat } from './lease.ts'
import { createOutageLog, type JobCounts, type OutageLog, runJob } from './run.ts'
import {
  CHANNEL,
  type ClaimedJob,
  type Claimer,
  deleteEnded,
  lockClaims,
  putBack,
  queueQuery,
  type RecurringJobRow,
  reapDead,
  recordStarts,
  takeQuery,
  upsertRecurring,
} from './sql.ts'
import {
  deleteOldWorkers,
  deleteWorker,
  listWorkersWithoutSession,
  nameSession,
  upsertWorker,
  type WorkerRow,
} from './workers/sql.ts'

export type WorkerOptions = {
  database: Database
  handlers: readonly JobHandler[]
  /** Maximum number of jobs that run at once in this process. */
  slots: number
  /** Number of further slots, for jobs of outer fair groups of which this process runs no job. Default 0. */
  firstJobSlots?: number | undefined
  /** Maximum starts per second of jobs that declare memory, over all workers of this host. Default: no limit. */
  startsPerSecond?: number | undefined
  /** Maximum memory of those jobs together, over all workers of this host. Default: no limit. */
  memoryMb?: number | undefined
  /** Called before each claim. Returns the part of that memory which one outer fair group may take. Default: all of it. */
  groupMemoryShare?: ((db: Db) => Promise<number>) | undefined
  /** Called before each claim. Returns false while this process must not start jobs. Default: always true. */
  mayClaim?: (() => boolean) | undefined
  log: JobLog
  leaseMs?: number | undefined
  pollMs?: number | undefined
}

export type Worker = {
  id: string
  counts(): JobCounts & { running: number }
  /** Stops claiming, waits `graceMs` for running jobs, then aborts them and puts them back for other workers. */
  stop(graceMs: number): Promise<void>
}

type WorkerState = {
  options: WorkerOptions
  database: Database
  leaseMs: number
  pollMs: number
  log: JobLog
  worker: WorkerRow
  handlers: ReadonlyMap<string, JobHandler>
  recurring: RecurringJobRow[]
  /** Connections of the worker itself, apart from those of its handlers. */
  ownDatabase: Database
  running: Map<Lease, Promise<void>>
  counts: JobCounts
  outage: OutageLog
  claimSignal: WakeSignal
  heartbeatSignal: WakeSignal
  /** Time until the next claim, unless `claimSignal` comes earlier. */
  nextClaimMs: number
  phase: 'working' | 'stopping' | 'stopped'
}

type Loops = { claiming: Promise<void>; heartbeats: Promise<void>; notices: { close(): Promise<void> } }

const LEASE_MS = 30_000
const POLL_MS = 1_000
/** Jobs that arrive or end within this time share one claim, because the claims of all workers are serialised. */
const BURST_MS = 10
/** Bounds the cost of one claim, which grows with slots × queue classes and blocks the claims of others. */
const CLAIM_MAX = 50
/** Pause after a database error. */
const RETRY_MS = 1_000
/** Time for a handler to release its sandbox after its signal aborted. */
const ABORT_GRACE_MS = 5_000
/**
 * Maximum time of each database access during a stop. A database that does not respond must not keep the process from
 * exiting.
 */
const CLOSE_MS = 5_000

/** Starts a worker. Database errors never end it: it resumes when the database does. */
export function startWorker(options: WorkerOptions): Worker {
  const state = createState(options)
  const loops = { claiming: claimLoop(state), heartbeats: heartbeatLoop(state), notices: listenForNotices(state) }
  let stopped: Promise<void> | undefined
  return {
    id: state.worker.id,
    counts: () => ({ ...state.counts, running: state.running.size }),
    stop(graceMs) {
      stopped ??= stop(state, loops, graceMs)
      return stopped
    },
  }
}

const deleteEndedJobs = defineRecurringJob('jobs.sweep', 3_600, (job) =>
  job.finish(async (tx) => {
    await deleteEnded(tx)
    await deleteOldWorkers(tx)
  }),
)

function createState(options: WorkerOptions): WorkerState {
  const handlers = [deleteEndedJobs, ...options.handlers]
  const byType = new Map(handlers.map((handler) => [handler.type, handler]))
  if (byType.size < handlers.length) throw new Error('Two job handlers have the same type.')
  return {
    options,
    database: options.database,
    leaseMs: options.leaseMs ?? LEASE_MS,
    pollMs: options.pollMs ?? POLL_MS,
    log: options.log,
    worker: { id: newId(), host: hostname(), processId: process.pid },
    handlers: byType,
    recurring: listRecurringJobs(handlers),
    // Separate connections: handlers that exhaust the shared pool must not keep a lease from being renewed.
    ownDatabase: connect(options.database.url, { max: 2, onError: () => {} }),
    running: new Map(),
    counts: { done: 0, retried: 0, failed: 0, putBack: 0, lost: 0 },
    outage: createOutageLog(options.log),
    claimSignal: createWakeSignal(),
    heartbeatSignal: createWakeSignal(),
    nextClaimMs: POLL_MS,
    phase: 'working',
  }
}

const RECURRING_PRIORITY = 100
const RECURRING_FAILURES_MAX = 5

/**
 * Lists the jobs of handlers that run regularly. Ids are derived from the job type, so that any number of workers register
 * one job. Throws unless `{}` is a valid payload.
 */
const listRecurringJobs = (handlers: readonly JobHandler[]): RecurringJobRow[] =>
  handlers.flatMap(({ type, payload, everySeconds, priority, failuresMax }) => {
    if (everySeconds === undefined) return []
    return {
      id: derivedId('recurring job', type),
      type,
      payload: payload.parse({}),
      priority: priority ?? RECURRING_PRIORITY,
      failuresMax: failuresMax ?? RECURRING_FAILURES_MAX,
      everySeconds,
    }
  })

/** Wakes the loops on notifications. After a reconnect both are woken, because notifications may have been missed. */
function listenForNotices({ database, worker, outage, claimSignal, heartbeatSignal }: WorkerState): {
  close(): Promise<void>
} {
  const onNotice = (notice: string) => {
    outage.recovered('listen')
    if (notice !== 'queued') heartbeatSignal.notify()
    if (notice !== 'cancel') claimSignal.notify()
  }
  return listenTo(
    { url: database.url, channel: CHANNEL, applicationName: nameSession(worker.id) },
    {
      onConnect: () => onNotice('reconnected'),
      onNotice,
      onDisconnect: (error) => {
        if (error !== undefined) outage.failed('listen', error)
      },
    },
  )
}

async function claimLoop(state: WorkerState): Promise<void> {
  while (!(await tryActivity(state, 'register', () => register(state.ownDatabase.db, state)))) {
    await state.claimSignal.wait(RETRY_MS)
    if (state.phase !== 'working') return
  }
  while (state.phase === 'working') {
    await tryActivity(state, 'claim', () => claimFreeSlots(state))
    await pause(BURST_MS)
    await state.claimSignal.wait(state.nextClaimMs)
  }
}

/** Runs before the first claim: claims sum up the memory of a host through the rows of its workers. */
async function register(db: Db, { worker, recurring }: WorkerState): Promise<void> {
  await upsertWorker(db, worker)
  for (const job of recurring) await upsertRecurring(db, job)
  await reapPredecessors(db, worker)
}

/** Requeues the jobs of processes of this host that have ended, so that they are continued before others start. */
async function reapPredecessors(db: Db, worker: WorkerRow): Promise<void> {
  const suspects = await listWorkersWithoutSession(db, worker, process.uptime() * 1000)
  const dead = suspects.filter(({ processId }) => processId === worker.processId || hasProcessEnded(processId))
  if (dead.length > 0) await reapDead(db, { workerIds: dead.map(({ workerId }) => workerId) })
}

async function claimFreeSlots(state: WorkerState): Promise<void> {
  const { options, worker, pollMs, leaseMs } = state
  state.nextClaimMs = pollMs
  if (options.mayClaim?.() === false) return
  const sharedSlots = options.slots - state.running.size
  const slots = Math.min(CLAIM_MAX, sharedSlots + (options.firstJobSlots ?? 0))
  if (slots <= 0) return
  const share = await options.groupMemoryShare?.(state.ownDatabase.db)
  const claimedAt = performance.now()
  const { jobs, nextStartMs = pollMs } = await claim(state.ownDatabase.db, {
    workerId: worker.id,
    host: worker.host,
    types: [...state.handlers.keys()],
    slots,
    sharedSlots,
    startsPerSecond: options.startsPerSecond,
    memoryMb: options.memoryMb,
    groupMemoryMb: options.memoryMb && share && options.memoryMb * share,
    leaseMs,
  })
  // A queued job may be waiting for the next start that the rate allows.
  state.nextClaimMs = Math.min(pollMs, nextStartMs)
  if (jobs.length === CLAIM_MAX) state.claimSignal.notify()
  // The worker may have been stopped while the claim was running.
  if (state.phase !== 'working') return putBackAll(state, jobs)
  for (const job of jobs) startJob(state, job, claimedAt)
}

async function putBackAll(state: WorkerState, jobs: readonly ClaimedJob[]): Promise<void> {
  await Promise.all(jobs.map((job) => putBack(state.ownDatabase.db, job)))
}

function startJob(state: WorkerState, job: ClaimedJob, claimedAt: number): void {
  const lease = createLease(job, { database: state.database, leaseMs: state.leaseMs, claimedAt })
  const run = runJob(state, lease).finally(() => {
    state.running.delete(lease)
    state.claimSignal.notify()
  })
  state.running.set(lease, run)
}

/**
 * Renews the leases of this worker until it is stopped, and declares silent workers dead. After an outage of the database,
 * the others need a moment to report again. Therefore only a worker that has reached the database for `silentMs` may
 * declare another one dead.
 */
async function heartbeatLoop(state: WorkerState): Promise<void> {
  const { ownDatabase, worker, leaseMs } = state
  const heartbeatMs = leaseMs / 8
  const silentMs = leaseMs / 4
  let connectedAt = performance.now()
  while (state.phase !== 'stopped') {
    const isConnectedLongEnough = performance.now() - connectedAt >= silentMs
    const isRenewed = await tryActivity(state, 'heartbeat', async () => {
      const heartbeat = { db: ownDatabase.db, worker, leaseMs, silentMs: isConnectedLongEnough ? silentMs : undefined }
      if (await sendHeartbeat(heartbeat, state.running.keys())) state.claimSignal.notify()
    })
    if (!isRenewed) connectedAt = performance.now()
    await state.heartbeatSignal.wait(isRenewed ? heartbeatMs : Math.min(RETRY_MS, heartbeatMs))
  }
}

/** Runs `work`. Returns false, and reports to the outage log, if it throws. */
async function tryActivity(state: WorkerState, activity: string, work: () => Promise<void>): Promise<boolean> {
  try {
    await work()
    state.outage.recovered(activity)
    return true
  } catch (error) {
    state.outage.failed(activity, error)
    return false
  }
}

async function stop(state: WorkerState, loops: Loops, graceMs: number): Promise<void> {
  state.phase = 'stopping'
  state.claimSignal.notify()
  await settleWithin(CLOSE_MS, loops.claiming)
  await settleWithin(graceMs, Promise.all(state.running.values()))
  for (const lease of state.running.keys()) lease.abort.abort(new WorkerStopped('The worker is stopping.'))
  await settleWithin(Math.min(ABORT_GRACE_MS, state.leaseMs), Promise.all(state.running.values()))
  await settleWithin(CLOSE_MS, revokeLeases(state, [...state.running.keys()]))
  state.phase = 'stopped'
  state.heartbeatSignal.notify()
  await settleWithin(CLOSE_MS, closeAll(state, loops))
}

/** Revokes the leases of handlers that ignore their signal. Whatever they still try to write throws `LeaseLost`. */
async function revokeLeases(state: WorkerState, leases: Lease[]): Promise<void> {
  for (const lease of leases) loseLease(lease, 'was given back because the worker is stopping')
  const jobs = leases.map((lease) => lease.job)
  await tryActivity(state, 'put back', () => putBackAll(state, jobs))
}

async function closeAll(state: WorkerState, loops: Loops): Promise<void> {
  await Promise.all([loops.heartbeats, loops.notices.close()])
  await tryActivity(state, 'leave', async () => void (await deleteWorker(state.ownDatabase.db, state.worker.id)))
  await state.ownDatabase.close()
}

/** Waits until the work settles, at most `ms`. */
async function settleWithin(ms: number, work: Promise<unknown>): Promise<void> {
  const settled = createWakeSignal()
  work.then(settled.notify, settled.notify)
  await settled.wait(ms)
}

/** Options of a claim. Undefined `startsPerSecond` or `memoryMb` means no limit. */
export type ClaimOptions = Omit<Claimer, 'host'> & {
  host?: string | undefined
  /** Number of slots for outer fair groups of which the worker runs a job already. Default: all slots. */
  sharedSlots?: number | undefined
  startsPerSecond?: number | undefined
  memoryMb?: number | undefined
}

type ClaimResult = {
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
  const {
    slots,
    sharedSlots,
    startsPerSecond = Number.POSITIVE_INFINITY,
    memoryMb = Number.POSITIVE_INFINITY,
    groupMemoryMb,
  } = options
  const claimer = { ...options, host: options.host ?? '' }
  return db.transaction().execute(async (tx) => {
    await lockClaims(tx)
    const { rows: queues } = await executePrepared(tx, queueQuery(claimer))
    const { startsMsAgo = [], ...queue } = queues[0] ?? EMPTY_QUEUE
    const startsLeft = startsPerSecond - startsMsAgo.length
    const admission = admit(queue, { slots, sharedSlots, starts: startsLeft, memoryMb, groupMemoryMb })
    const { rows: jobs } =
      admission.jobCounts.size > 0 ? await executePrepared(tx, takeQuery(claimer, admission)) : { rows: [] }
    const started = jobs.filter((job) => job.memoryMb > 0).length
    if (started > 0 && startsPerSecond < Number.POSITIVE_INFINITY) await recordStarts(tx, claimer.host, started)
    return { jobs, nextStartMs: started < startsLeft ? undefined : SECOND_MS - (startsMsAgo[0] ?? 0) }
  })
}

import { hostname } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type Database } from '../db/db.ts'
import { newId } from '../ids.ts'
import { type Bell, createBell } from './bell.ts'
import { claim } from './claim.ts'
import { beat } from './heartbeat.ts'
import { type JobLog, type RunnableKind, WorkerStopped } from './jobs.ts'
import { holdLease, type Lease, loseLease } from './lease.ts'
import { createOutage, type Outage } from './outage.ts'
import { type RecurringJob, recurringJobs, registerRecurring } from './recurring.ts'
import { type Counts, runJob } from './run.ts'
import { type ClaimedJob, deleteWorker, putBack, upsertWorker } from './sql.ts'
import { sweep } from './sweep.ts'
import { listen } from './wake.ts'

export type WorkerOptions = {
  database: Database
  kinds: readonly RunnableKind[]
  /** Jobs that run at once in this process. */
  slots: number
  /** Starts in any second of jobs that weigh something, over all workers of this host. Default: no limit. */
  startsPerSecond?: number
  /** What those jobs may take together, likewise. Default: no limit. */
  memoryMb?: number
  log: JobLog
  leaseMs?: number
  pollMs?: number
}

export type Worker = {
  id: string
  counts(): Counts & { running: number }
  /** Claims nothing more, lets jobs run for `graceMs`, then aborts them and puts them back for other workers. */
  stop(graceMs: number): Promise<void>
}

type State = Required<Omit<WorkerOptions, 'kinds'>> & {
  worker: { id: string; host: string; processId: number }
  kinds: ReadonlyMap<string, RunnableKind>
  recurring: RecurringJob[]
  own: Database
  running: Map<Lease, Promise<void>>
  counts: Counts
  outage: Outage
  claimBell: Bell
  beatBell: Bell
  nextClaimMs: number
  phase: 'working' | 'stopping' | 'stopped'
}

type Loops = { claiming: Promise<void>; beating: Promise<void>; wake: { close(): Promise<void> } }

const LEASE_MS = 30_000
const POLL_MS = 1_000
/** Jobs that come or end within this time are one claim: claims of all workers stand in one line. */
const BURST_MS = 10
/** A claim costs its slots times the lanes that wait, and the others wait for it. */
const CLAIM_MAX = 50
const RETRY_MS = 1_000
/** What a handler gets to give back its sandbox after its signal aborted. */
const ABORT_GRACE_MS = 5_000
/** A database that does not answer must not keep the process from ending. */
const CLOSE_MS = 5_000

/** Errors of the database never end it: it goes on when the database does. */
export function startWorker(options: WorkerOptions): Worker {
  const state = createState(options)
  const loops = {
    claiming: claimLoop(state),
    beating: beatLoop(state),
    wake: listen(state.database.url, (notice) => hear(state, notice), state.outage),
  }
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

function createState(options: WorkerOptions): State {
  const kinds = [sweep, ...options.kinds]
  const byKind = new Map(kinds.map((runnable) => [runnable.kind, runnable]))
  if (byKind.size < kinds.length) throw new Error('Two kinds of jobs have the same name.')
  // Connections of its own: handlers that use up the shared pool must not keep a lease from being renewed.
  const own = connect(options.database.url, { max: 2, onError: () => {} })
  return {
    leaseMs: LEASE_MS,
    pollMs: POLL_MS,
    ...{ memoryMb: Number.POSITIVE_INFINITY, startsPerSecond: Number.POSITIVE_INFINITY },
    ...options,
    worker: { id: newId(), host: hostname(), processId: process.pid },
    kinds: byKind,
    recurring: recurringJobs(kinds),
    own,
    running: new Map(),
    counts: { done: 0, retried: 0, failed: 0, putBack: 0, lost: 0 },
    outage: createOutage(options.log),
    claimBell: createBell(),
    beatBell: createBell(),
    nextClaimMs: POLL_MS,
    phase: 'working',
  }
}

function hear(state: State, notice: string): void {
  if (notice !== 'queued') state.beatBell.ring()
  if (notice !== 'cancel') state.claimBell.ring()
}

async function claimLoop(state: State): Promise<void> {
  while (!(await tried(state, 'register', () => register(state)))) {
    await state.claimBell.wait(RETRY_MS)
    if (state.phase !== 'working') return
  }
  while (state.phase === 'working') {
    await tried(state, 'claim', () => claimFree(state))
    await pause(BURST_MS)
    await state.claimBell.wait(state.nextClaimMs)
  }
}

/** Before the first claim: the memory that its jobs take is counted by its host, which stands in its row. */
async function register(state: State): Promise<void> {
  await upsertWorker(state.own.db, state.worker)
  await registerRecurring(state.own.db, state.recurring)
}

async function claimFree(state: State): Promise<void> {
  state.nextClaimMs = state.pollMs
  const slots = Math.min(CLAIM_MAX, state.slots - state.running.size)
  if (slots <= 0) return
  const claimedAt = performance.now()
  const { startsPerSecond, memoryMb, leaseMs } = state
  const { jobs, nextStartMs = state.pollMs } = await claim(state.own.db, {
    workerId: state.worker.id,
    host: state.worker.host,
    kinds: [...state.kinds.keys()],
    ...{ slots, startsPerSecond, memoryMb, leaseMs },
  })
  // Some job may wait for the next start.
  state.nextClaimMs = Math.min(state.pollMs, nextStartMs)
  if (jobs.length === CLAIM_MAX) state.claimBell.ring()
  // The stop came while the claim was on its way.
  if (state.phase !== 'working') return putBackAll(state, jobs)
  for (const job of jobs) start(state, job, claimedAt)
}

async function putBackAll(state: State, jobs: readonly ClaimedJob[]): Promise<void> {
  await Promise.all(jobs.map((job) => putBack(state.own.db, job)))
}

function start(state: State, job: ClaimedJob, claimedAt: number): void {
  const lease = holdLease(job, { database: state.database, leaseMs: state.leaseMs, claimedAt })
  const ran = runJob(state, lease).finally(() => {
    state.running.delete(lease)
    state.claimBell.ring()
  })
  state.running.set(lease, ran)
}

async function beatLoop(state: State): Promise<void> {
  while (state.phase !== 'stopped') {
    const worked = await tried(state, 'heartbeat', async () => {
      const beating = { db: state.own.db, worker: state.worker, leaseMs: state.leaseMs }
      if (await beat(beating, state.running.keys())) state.claimBell.ring()
    })
    await state.beatBell.wait(worked ? state.leaseMs / 4 : Math.min(RETRY_MS, state.leaseMs / 4))
  }
}

async function tried(state: State, activity: string, work: () => Promise<void>): Promise<boolean> {
  try {
    await work()
    state.outage.worked(activity)
    return true
  } catch (error) {
    state.outage.failed(activity, error)
    return false
  }
}

async function stop(state: State, loops: Loops, graceMs: number): Promise<void> {
  state.phase = 'stopping'
  state.claimBell.ring()
  await within(CLOSE_MS, loops.claiming)
  await within(graceMs, Promise.all(state.running.values()))
  for (const lease of state.running.keys()) lease.abort.abort(new WorkerStopped('The worker is stopping.'))
  await within(Math.min(ABORT_GRACE_MS, state.leaseMs), Promise.all(state.running.values()))
  await within(CLOSE_MS, takeBack(state, [...state.running.keys()]))
  state.phase = 'stopped'
  state.beatBell.ring()
  await within(CLOSE_MS, closeAll(state, loops))
}

/** From handlers that do not listen. Whatever they still try to write will find its lease gone. */
async function takeBack(state: State, leases: Lease[]): Promise<void> {
  for (const lease of leases) loseLease(lease, 'was given back because the worker is stopping')
  const jobs = leases.map((lease) => lease.job)
  await tried(state, 'put back', () => putBackAll(state, jobs))
}

async function closeAll(state: State, loops: Loops): Promise<void> {
  await Promise.all([loops.beating, loops.wake.close()])
  await tried(state, 'leave', async () => void (await deleteWorker(state.own.db, state.worker.id)))
  await state.own.close()
}

/** Whether it ends in time or not, never longer. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const timeout = createBell()
  work.then(timeout.ring, timeout.ring)
  await timeout.wait(ms)
}

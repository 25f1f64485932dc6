import { type QueryResult, type RawBuilder, sql } from 'kysely'
import { type Db, executePrepared } from '../db/db.ts'
import { ALL_MEMORY_MB, type JobAdmission, type QueueState } from './admission.ts'
import { hasNoSession } from './workers/sql.ts'

export type NewJob = {
  id: string
  payload: unknown
  priority: number
  fairGroup: string
  limitKeys: readonly string[]
  memoryMb: number
  runAt?: Date | undefined
}

/** A claimed job and the lease under which this process holds it. */
export type ClaimedJob = {
  id: string
  type: string
  payload: unknown
  attempt: number
  failures: number
  failuresMax: number
  crashes: number
  deaths: number
  unattendedMs: number
  everySeconds: number | null
  memoryMb: number
  leaseId: string
}

export type Claimer = {
  workerId: string
  host: string
  types: readonly string[]
  slots: number
  leaseMs: number
  /** Maximum memory that a job counts as, unless it must run alone. Default: no limit. */
  groupMemoryMb?: number | undefined
}
type LeaseKey = Pick<ClaimedJob, 'id' | 'leaseId'>

export const CHANNEL = 'assay_jobs'

/** Wakes the workers when the transaction commits. A worker that misses the notification finds out by polling. */
export const notifyWorkers = (tx: Db, notice: 'queued' | 'cancel') =>
  sql`select pg_notify(${CHANNEL}, ${notice})`.execute(tx)

type JobTypeSettings = { type: string; failuresMax: number }

export const insertJobs = (tx: Db, settings: JobTypeSettings, jobs: readonly NewJob[]) =>
  insertSelected(
    tx,
    settings,
    sql`select id, payload, priority, "fairGroup" as fair_group, "limitKeys" as limit_keys, "memoryMb" as memory_mb,
        coalesce("runAt", now()) as run_at
      from jsonb_to_recordset(${JSON.stringify(jobs)}::jsonb) as job (id uuid, payload jsonb, priority smallint,
        "fairGroup" text, "limitKeys" jsonb, "memoryMb" integer, "runAt" timestamptz)`,
  )

export type JobSelect = RawBuilder<unknown>

/** Inserts a job per row of the query, whose ids must be distinct. Returns the number of jobs that are new. */
export async function insertSelected(tx: Db, settings: JobTypeSettings, select: JobSelect): Promise<number> {
  const { rows } = await sql<{ jobs: number }>`
    with inserted as (
      insert into jobs (id, type, payload, priority, fair_group, limit_keys, memory_mb, run_at, failures_max)
      select id, ${settings.type}, payload, priority, fair_group, limit_keys, memory_mb, run_at, ${settings.failuresMax}
      from (${select}) as job
      on conflict (id) do update set
        state = case jobs.state when 'running' then 'running' else 'queued' end,
        cancel_requested = false,
        payload = excluded.payload,
        priority = excluded.priority,
        fair_group = excluded.fair_group,
        -- A running job keeps the slots and the memory it has taken.
        limit_keys = case jobs.state when 'running' then jobs.limit_keys else excluded.limit_keys end,
        memory_mb = case jobs.state when 'running' then jobs.memory_mb else excluded.memory_mb end,
        run_at = excluded.run_at,
        failures_max = excluded.failures_max,
        failures = 0,
        crashes = 0,
        deaths = 0,
        attended_until = null,
        error = null,
        finished_at = null
      where jobs.state in ('failed', 'canceled') or jobs.cancel_requested
      returning 1
    )
    select count(*)::int as jobs, pg_notify(${CHANNEL}, 'queued') from inserted`.execute(tx)
  return rows[0]?.jobs ?? 0
}

/**
 * Updates the planner's statistics of the jobs. Call it after enqueuing many: plans that were cached for a small table scan
 * all of it. Autovacuum does the same, but later.
 */
export const refreshJobStatistics = (db: Db) => sql`analyze jobs`.execute(db)

export type RecurringJobRow = Pick<NewJob, 'id' | 'payload' | 'priority'> & {
  type: string
  failuresMax: number
  everySeconds: number
}

/** Registers a recurring job. A no-op unless its declaration has changed or the job has ended. */
export const upsertRecurring = (db: Db, job: RecurringJobRow) =>
  sql`
    insert into jobs (id, type, payload, priority, failures_max, every_seconds)
    values (${job.id}, ${job.type}, ${JSON.stringify(job.payload)}, ${job.priority}, ${job.failuresMax},
      ${job.everySeconds})
    on conflict (id) do update set
      state = case jobs.state when 'running' then 'running' else 'queued' end,
      payload = excluded.payload,
      priority = excluded.priority,
      failures_max = excluded.failures_max,
      every_seconds = excluded.every_seconds,
      run_at = least(jobs.run_at, now() + excluded.every_seconds * interval '1 s'),
      crashes = 0,
      deaths = 0,
      cancel_requested = false,
      finished_at = null
    where jobs.state in ('failed', 'canceled')
      or (jobs.payload, jobs.priority, jobs.failures_max, jobs.every_seconds)
        is distinct from (excluded.payload, excluded.priority, excluded.failures_max, excluded.every_seconds)
  `.execute(db)

/** Locks rows in the order of their ids, so that two cancels of the same jobs cannot deadlock. */
export async function requestCancel(tx: Db, ids: readonly string[]): Promise<{ id: string; state: string }[]> {
  const { rows } = await sql<{ id: string; state: string }>`
    with found as (
      select id from jobs
      where id = any(${ids}::uuid[]) and state in ('queued', 'running', 'canceled')
      order by id for update
    ), requested as (
      update jobs set
        state = case state when 'queued' then 'canceled' else state end,
        finished_at = case state when 'queued' then now() else finished_at end,
        cancel_requested = true
      from found where jobs.id = found.id
      returning jobs.id, jobs.state
    )
    select id, state from requested`.execute(tx)
  if (rows.some((row) => row.state === 'running')) await notifyWorkers(tx, 'cancel')
  return rows
}

/** Deletes jobs that are still queued. Running and ended jobs are left alone. */
export async function deleteQueuedJobs(tx: Db, ids: readonly string[]): Promise<void> {
  await sql`delete from jobs where id = any(${ids}::uuid[]) and state = 'queued'`.execute(tx)
}

export const upsertLimit = (tx: Db, key: string, slots: number) =>
  tx
    .insertInto('job_limits')
    .values({ key, slots })
    .onConflict((conflict) => conflict.column('key').doUpdateSet({ slots }))
    .execute()

export const deleteLimit = (tx: Db, key: string) => tx.deleteFrom('job_limits').where('key', '=', key).execute()

/**
 * Serialises claims until the transaction ends. Forces index scans: a bitmap scan reads the dead rows of all jobs that
 * ran since the last vacuum, where an index scan reads each once and marks it; and a plan prepared for an empty table
 * must also serve a full one. Does not wait for the disk: a claim that is undone by a database crash leaves an expired
 * lease.
 */
export const lockClaims = (tx: Db) =>
  executePrepared(
    tx,
    sql`select pg_advisory_xact_lock(hashtextextended('jobs.claim', 0)),
    set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true),
    set_config('synchronous_commit', 'off', true)`,
  )

const selectQueueHeads = sql`select queue_class, type, priority, fair_group, limit_keys, memory_mb from jobs where state = 'queued'`

/** Reads everything admission needs. Its cost grows with queue classes and running jobs, not with queued jobs. */
export const queueQuery = ({ types, slots, host, workerId, groupMemoryMb }: Claimer) => sql<
  QueueState & { startsMsAgo: number[] }
>`
  with recursive walk as (
    -- Loose index scan: the oldest job of each queue class.
    (${selectQueueHeads} order by queue_class, run_at, id limit 1)
    union all
    select next.* from walk cross join lateral (
      ${selectQueueHeads} and jobs.queue_class > walk.queue_class order by queue_class, run_at, id limit 1
    ) as next
  ), classes as (
    select * from walk where type = any(${types}::text[])
  ), due as (
    select classes.*, row_number() over (order by job.run_at, job.id) as rank
    from classes cross join lateral (
      select run_at, id from jobs
      where state = 'queued' and jobs.queue_class = classes.queue_class and run_at <= statement_timestamp()
      order by run_at, id limit ${slots}::int
    ) as job
  ), ranked as (
    -- Groups by all columns. A join with the classes instead could aggregate once per class.
    select queue_class, priority, fair_group, limit_keys, memory_mb, json_agg(rank order by rank) as ranks
    from due group by queue_class, priority, fair_group, limit_keys, memory_mb
  ), running as (
    -- Counted each time: a counter could drift.
    select fair_group, limit_keys, count(*) as jobs, count(*) filter (where worker_id = ${workerId}) as own_jobs,
      coalesce(sum(case when memory_mb = ${ALL_MEMORY_MB}::int then memory_mb
        else least(memory_mb, ${groupMemoryMb ?? null}::float8) end)
        filter (where worker_id = ${workerId} or host = ${host}), 0) as memory_mb
    from jobs left join workers on workers.id = worker_id where state = 'running' group by fair_group, limit_keys
  )
  select
    (select coalesce(json_agg(json_build_object('id', queue_class, 'priority', priority, 'fairGroup', fair_group,
      'limitKeys', limit_keys, 'memoryMb', memory_mb, 'ranks', ranks)), '[]') from ranked) as "queueClasses",
    (select coalesce(json_agg(json_build_object('fairGroup', fair_group, 'limitKeys', limit_keys, 'jobs', jobs,
      'ownJobs', own_jobs, 'memoryMb', memory_mb)), '[]') from running) as running,
    (select coalesce(sum(memory_mb), 0)::int8 from running) as "memoryMbTaken",
    -- A key without a limit of its own has the limit of its first word.
    (select coalesce(json_agg(json_build_object('key', wanted.key, 'slots', coalesce(own.slots, common.slots))), '[]')
      from (select distinct jsonb_array_elements_text(limit_keys) as key from classes) as wanted
      left join job_limits as own on own.key = wanted.key
      left join job_limits as common on common.key = split_part(wanted.key, ' ', 1)
      where coalesce(own.slots, common.slots) is not null) as limits,
    (select coalesce(json_agg(extract(epoch from statement_timestamp() - at)::float8 * 1000 order by at), '[]')
      from host_starts cross join unnest(started_at) as at
      where host = ${host} and at > statement_timestamp() - interval '1 s') as "startsMsAgo",
    (select coalesce(json_agg(json_build_object('fairGroup', fair_group,
      'served', (extract(epoch from served_at) * 1000000)::int8)), '[]') from job_turns
      where fair_group in (select fair_group from classes union select split_part(fair_group, '/', 1) from classes))
      as turns`

/** Adds starts of this host and drops those older than a second. */
export const recordStarts = (tx: Db, host: string, count: number) =>
  sql`
    insert into host_starts (host, started_at) values (${host}, array_fill(statement_timestamp(), array[${count}::int]))
    on conflict (host) do update set started_at = array(
      select at from unnest(host_starts.started_at) as at where at > statement_timestamp() - interval '1 s'
    ) || excluded.started_at`.execute(tx)

/** Takes the oldest jobs of each admitted queue class and records the turns of the groups served. */
export const takeQuery = ({ workerId, leaseMs }: Claimer, { jobCounts, served }: JobAdmission) => sql<ClaimedJob>`
  with locked as (
    -- Skips rows that are being canceled: a claim must not wait, because all other claims wait for it.
    select job.id
    from unnest(${[...jobCounts.keys()]}::uuid[], ${[...jobCounts.values()]}::int[]) as admitted (queue_class, jobs)
    cross join lateral (
      select id from jobs
      where state = 'queued' and jobs.queue_class = admitted.queue_class and run_at <= statement_timestamp()
      order by run_at, id limit admitted.jobs for update skip locked
    ) as job
  ), turns as (
    insert into job_turns (fair_group, served_at)
    select name, statement_timestamp() + nth * interval '1 us'
    from unnest(${served}::text[]) with ordinality as turn (name, nth)
    on conflict (fair_group) do update set served_at = excluded.served_at
  )
  update jobs set
    state = 'running',
    attempt = attempt + 1,
    lease_id = gen_random_uuid(),
    leased_until = statement_timestamp() + ${leaseMs}::int * interval '1 ms',
    worker_id = ${workerId}
  -- As an array: for a join the planner expects so many rows that it scans the whole table.
  where id = any(array(select id from locked))
  returning id, type, payload, attempt, failures, failures_max as "failuresMax", crashes, deaths,
    coalesce(extract(epoch from statement_timestamp() - attended_until) * 1000, 0)::float8 as "unattendedMs",
    every_seconds as "everySeconds", memory_mb as "memoryMb", lease_id as "leaseId"`

/** Renews leases and returns those still held. Skips locked rows: they are in a transaction of the lease's owner. */
export async function renewLeases(db: Db, leases: readonly LeaseKey[], leaseMs: number) {
  const { rows } = await sql<{ leaseId: string; cancelRequested: boolean }>`
    with mine as (
      select * from unnest(${leases.map((lease) => lease.id)}::uuid[], ${leases.map((lease) => lease.leaseId)}::uuid[])
        as mine (id, lease_id)
    ), free as (
      select jobs.id from jobs join mine using (id, lease_id) for update of jobs skip locked
    ), renewed as (
      update jobs set leased_until = statement_timestamp() + ${leaseMs}::int * interval '1 ms' from free where jobs.id = free.id
    )
    select lease_id as "leaseId", cancel_requested as "cancelRequested" from jobs join mine using (id, lease_id)
  `.execute(db)
  return rows
}

/** Locks the row of a job. Returns false if the lease is lost. */
export async function lockLease(tx: Db, lease: LeaseKey): Promise<boolean> {
  const row = await tx
    .selectFrom('jobs')
    .select('id')
    .where('id', '=', lease.id)
    .where('lease_id', '=', lease.leaseId)
    .forUpdate()
    .executeTakeFirst()
  return row !== undefined
}

const clearLease = sql`lease_id = null, leased_until = null, worker_id = null`
const requeueOrCancel = sql`
  state = case when cancel_requested then 'canceled' else 'queued' end,
  finished_at = case when cancel_requested then now() end`

/** Ends a job: deletes it, or schedules the next run of a recurring one. Returns false if the lease is lost. */
export async function endJob(tx: Db, lease: LeaseKey & Pick<ClaimedJob, 'everySeconds'>): Promise<boolean> {
  const whereHeld = sql`where id = ${lease.id} and lease_id = ${lease.leaseId}`
  if (lease.everySeconds === null) return isChanged(await executePrepared(tx, sql`delete from jobs ${whereHeld}`))
  return changesRow(
    tx,
    sql`update jobs set ${requeueOrCancel}, ${clearLease}, failures = 0, crashes = 0, deaths = 0, error = null,
      run_at = now() + every_seconds * interval '1 s' ${whereHeld}`,
  )
}

type JobFailure = { kind: 'retry' | 'crash'; error: string; retryInMs: number }

/** Requeues a job, or cancels it if that was requested meanwhile. Returns false if the lease is lost. */
export function putBack(db: Db, lease: LeaseKey, failure?: JobFailure): Promise<boolean> {
  const counter = sql.ref(failure?.kind === 'crash' ? 'crashes' : 'failures')
  const later = failure
    ? sql`, ${counter} = ${counter} + 1, error = ${failure.error},
      run_at = now() + ${failure.retryInMs}::float8 * interval '1 ms'`
    : sql``
  return changesRow(
    db,
    sql`update jobs set ${requeueOrCancel}, ${clearLease}, attended_until = now()${later}
      where id = ${lease.id} and lease_id = ${lease.leaseId}`,
  )
}

/** Gives a job up; its row stays for inspection. Returns false if the lease is lost. */
export const failJob = (tx: Db, lease: LeaseKey, error: string): Promise<boolean> =>
  changesRow(
    tx,
    sql`update jobs set state = 'failed', ${clearLease}, failures = failures + 1, error = ${error}, finished_at = now()
      where id = ${lease.id} and lease_id = ${lease.leaseId}`,
  )

/** Number of deaths after which a job runs alone: its neighbours may be the cause, or may suffer from it. */
const ALONE_AFTER_DEATHS = 2

type DeadWorkers = {
  /** Workers that have no database session and sent no heartbeat for this long are dead. */
  silentMs?: number | undefined
  /** Workers that are known to be dead. */
  workerIds?: readonly string[] | undefined
}

/**
 * Requeues the jobs of dead workers, and those whose lease expired. Counts a crash and a death, not a failure; `runJob`
 * decides how many crashes are too many.
 */
export const reapDead = (db: Db, { silentMs, workerIds = [] }: DeadWorkers = {}): Promise<boolean> =>
  changesRow(
    db,
    sql`update jobs set ${requeueOrCancel}, ${clearLease}, crashes = crashes + 1, deaths = deaths + 1,
        attended_until = coalesce((select seen_at from workers where workers.id = worker_id), least(leased_until, now())),
        memory_mb = case when memory_mb > 0 and deaths + 1 >= ${ALONE_AFTER_DEATHS} then ${ALL_MEMORY_MB}
          else memory_mb end
      where id in (
        select id from jobs
        where state = 'running' and (leased_until < now() or worker_id = any(${workerIds}::uuid[]) or worker_id in (
          select workers.id from workers
          where seen_at < now() - ${silentMs ?? null}::float8 * interval '1 ms' and ${hasNoSession}
        )) for update skip locked
      )`,
  )

/** Counts jobs that could start now. Recurring jobs need no further worker, so they do not count. */
export async function countWaitingJobs(db: Db): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from jobs where state = 'queued' and run_at <= now() and every_seconds is null
  `.execute(db)
  return rows[0]?.count ?? 0
}

/** Deletes jobs and turns that are no longer needed. */
export async function deleteEnded(tx: Db): Promise<void> {
  await sql`delete from jobs where state in ('failed', 'canceled') and finished_at < now() - interval '7 days'`.execute(
    tx,
  )
  // A deleted group counts as never served. After a day that makes no difference.
  await sql`delete from job_turns where served_at < now() - interval '1 day'`.execute(tx)
}

const changesRow = async (db: Db, query: RawBuilder<unknown>): Promise<boolean> => isChanged(await query.execute(db))

const isChanged = ({ numAffectedRows = 0n }: QueryResult<unknown>): boolean => numAffectedRows > 0n

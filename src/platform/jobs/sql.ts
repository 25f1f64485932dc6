import { type RawBuilder, sql } from 'kysely'
import { type Db, lock } from '../db/db.ts'

export type NewJob = { id: string; payload: unknown; priority: number; limitKey?: string; runAt?: Date }

/** A job with the lease under which this process holds it. */
export type ClaimedJob = {
  id: string
  kind: string
  payload: unknown
  attempt: number
  failures: number
  failuresMax: number
  crashes: number
  everySeconds: number | null
  leaseId: string
}

export type Claim = { workerId: string; kinds: string[]; slots: number; leaseMs: number }
export type LeaseKey = Pick<ClaimedJob, 'id' | 'leaseId'>

const CHANNEL = 'assay_jobs'
export const LISTEN = `listen ${CHANNEL}`

/** Reaches the workers when the transaction commits. Only a hint: a worker that misses it finds out by polling. */
export const notifyWorkers = (tx: Db, notice: 'queued' | 'cancel') =>
  sql`select pg_notify(${CHANNEL}, ${notice})`.execute(tx)

export const insertJobs = (tx: Db, settings: { kind: string; failuresMax: number }, jobs: readonly NewJob[]) =>
  sql`
    with inserted as (
      insert into jobs (id, kind, payload, priority, limit_key, run_at, failures_max)
      select id, ${settings.kind}, payload, priority, coalesce("limitKey", ''), coalesce("runAt", now()),
        ${settings.failuresMax}
      from jsonb_to_recordset(${JSON.stringify(jobs)}::jsonb)
        as job (id uuid, payload jsonb, priority smallint, "limitKey" text, "runAt" timestamptz)
      on conflict (id) do update set
        state = case jobs.state when 'running' then 'running' else 'queued' end,
        cancel_requested = false,
        payload = excluded.payload,
        priority = excluded.priority,
        -- A running job keeps the slot that it took.
        limit_key = case jobs.state when 'running' then jobs.limit_key else excluded.limit_key end,
        run_at = excluded.run_at,
        failures_max = excluded.failures_max,
        failures = 0,
        crashes = 0,
        error = null,
        finished_at = null
      where jobs.state in ('failed', 'canceled') or jobs.cancel_requested
    )
    select pg_notify(${CHANNEL}, 'queued')`.execute(tx)

/** One row for ever: starting many workers, or the same one again, changes nothing unless the kind itself changed. */
export const upsertRecurring = (
  db: Db,
  job: Omit<NewJob, 'limitKey' | 'runAt'> & { kind: string; failuresMax: number; everySeconds: number },
) =>
  sql`
    insert into jobs (id, kind, payload, priority, failures_max, every_seconds)
    values (${job.id}, ${job.kind}, ${JSON.stringify(job.payload)}, ${job.priority}, ${job.failuresMax},
      ${job.everySeconds})
    on conflict (id) do update set
      state = case jobs.state when 'running' then 'running' else 'queued' end,
      payload = excluded.payload,
      priority = excluded.priority,
      failures_max = excluded.failures_max,
      every_seconds = excluded.every_seconds,
      run_at = least(jobs.run_at, now() + excluded.every_seconds * interval '1 s'),
      crashes = 0,
      cancel_requested = false,
      finished_at = null
    where jobs.state in ('failed', 'canceled')
      or (jobs.payload, jobs.priority, jobs.failures_max, jobs.every_seconds)
        is distinct from (excluded.payload, excluded.priority, excluded.failures_max, excluded.every_seconds)
  `.execute(db)

/** Locks in the order of ids, so that two cancels of the same jobs cannot deadlock. */
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

export const deleteQueued = (tx: Db, ids: readonly string[]) =>
  sql`delete from jobs where id = any(${ids}::uuid[]) and state = 'queued'`.execute(tx)

export const upsertLimit = (tx: Db, key: string, slots: number) =>
  tx
    .insertInto('job_limits')
    .values({ key, slots })
    .onConflict((conflict) => conflict.column('key').doUpdateSet({ slots }))
    .execute()

export const deleteLimit = (tx: Db, key: string) => tx.deleteFrom('job_limits').where('key', '=', key).execute()

/**
 * All claims of all workers happen one after another. Only so can limits be exact: each sees every job that runs.
 * The time is the statement's and not the transaction's, which may have waited for its turn.
 */
export async function claimJobs(db: Db, claim: Claim): Promise<ClaimedJob[]> {
  return db.transaction().execute(async (tx) => {
    await lock(tx, 'jobs.claim')
    const { rows } = await claimQuery(claim).execute(tx)
    return rows
  })
}

export const claimQuery = ({ workerId, kinds, slots, leaseMs }: Claim) => sql<ClaimedJob>`
  with recursive groups as (
    -- From one group to the next through the index: the cost is the number of groups and not of jobs.
    (select kind, limit_key, priority from jobs where state = 'queued' order by kind, limit_key, priority limit 1)
    union all
    select next.* from groups cross join lateral (
      select kind, limit_key, priority from jobs
      where state = 'queued' and (kind, limit_key, priority) > (groups.kind, groups.limit_key, groups.priority)
      order by kind, limit_key, priority limit 1
    ) as next
  ), free as (
    -- Counted anew each time, per key: a counter could drift, and a join would scan all that runs for every group.
    select groups.*, least(${slots}::int, job_limits.slots - (
      select count(*) from jobs where state = 'running' and limit_key = job_limits.key
    )) as slots
    from groups left join job_limits on job_limits.key = groups.limit_key
    where groups.kind = any(${kinds}::text[])
  ), due as (
    select job.id, job.run_at, free.priority, free.slots,
      row_number() over (partition by free.limit_key order by free.priority desc, job.run_at, job.id) as place
    from free cross join lateral (
      select id, run_at from jobs
      where state = 'queued' and kind = free.kind and limit_key = free.limit_key and priority = free.priority
        and run_at <= statement_timestamp()
      order by run_at, id limit greatest(free.slots, 0)
    ) as job
  ), chosen as (
    select id from due where place <= slots order by priority desc, run_at, id limit ${slots}::int
  ), locked as (
    -- Skips what someone is canceling just now: a claim must not wait while all the others wait for it.
    select id from jobs where id in (select id from chosen) and state = 'queued' for update skip locked
  )
  update jobs set
    state = 'running',
    attempt = attempt + 1,
    lease_id = gen_random_uuid(),
    leased_until = statement_timestamp() + ${leaseMs}::int * interval '1 ms',
    worker_id = ${workerId}
  from locked where jobs.id = locked.id
  returning jobs.id, kind, payload, attempt, failures, failures_max as "failuresMax", crashes,
    every_seconds as "everySeconds", lease_id as "leaseId"`

/** Renews what it can and tells which leases are still held. A row that is locked is in a transaction of its holder. */
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

/** False: the lease is lost. */
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

const noLease = sql`lease_id = null, leased_until = null, worker_id = null`
const unlessCanceled = sql`
  state = case when cancel_requested then 'canceled' else 'queued' end,
  finished_at = case when cancel_requested then now() end`

/** Done: an ordinary job is gone, a recurring one waits for its next turn. False: the lease is lost. */
export async function endJob(tx: Db, lease: LeaseKey & Pick<ClaimedJob, 'everySeconds'>): Promise<boolean> {
  const held = sql`where id = ${lease.id} and lease_id = ${lease.leaseId}`
  if (lease.everySeconds === null) return touched(tx, sql`delete from jobs ${held}`)
  return touched(
    tx,
    sql`update jobs set ${unlessCanceled}, ${noLease}, failures = 0, crashes = 0, error = null,
      run_at = now() + every_seconds * interval '1 s' ${held}`,
  )
}

/** Back to its place in the queue, or canceled if that was asked for meanwhile. False: the lease is lost. */
export function putBack(db: Db, lease: LeaseKey, failure?: { error: string; retryInMs: number }): Promise<boolean> {
  const later = failure
    ? sql`, failures = failures + 1, error = ${failure.error},
      run_at = now() + ${failure.retryInMs}::float8 * interval '1 ms'`
    : sql``
  return touched(
    db,
    sql`update jobs set ${unlessCanceled}, ${noLease}${later} where id = ${lease.id} and lease_id = ${lease.leaseId}`,
  )
}

/** Given up; stays for inspection. False: the lease is lost. */
export const failJob = (tx: Db, lease: LeaseKey, error: string): Promise<boolean> =>
  touched(
    tx,
    sql`update jobs set state = 'failed', ${noLease}, failures = failures + 1, error = ${error}, finished_at = now()
      where id = ${lease.id} and lease_id = ${lease.leaseId}`,
  )

/** Takes back what dead workers hold. It is no failure of the job; how many times is too many is for the claimer to say. */
export const reapExpired = (db: Db): Promise<boolean> =>
  touched(
    db,
    sql`update jobs set ${unlessCanceled}, ${noLease}, crashes = crashes + 1
      where id in (
        select id from jobs where state = 'running' and leased_until < now() for update skip locked
      )`,
  )

export const upsertWorker = (db: Db, worker: { id: string; host: string; processId: number }) =>
  sql`insert into workers (id, host, process_id) values (${worker.id}, ${worker.host}, ${worker.processId})
    on conflict (id) do update set seen_at = now()`.execute(db)

export const deleteWorker = (db: Db, id: string) => db.deleteFrom('workers').where('id', '=', id).execute()

export async function countWorkers(db: Db, withinSeconds: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(distinct (host, process_id))::int as count from workers where seen_at > now() - make_interval(secs => ${withinSeconds})
  `.execute(db)
  return rows[0]?.count ?? 0
}

export async function sweepEnded(tx: Db): Promise<void> {
  await sql`delete from jobs where state in ('failed', 'canceled') and finished_at < now() - interval '7 days'`.execute(
    tx,
  )
  await sql`delete from workers where seen_at < now() - interval '1 hour'`.execute(tx)
}

const touched = async (db: Db, query: RawBuilder<unknown>): Promise<boolean> =>
  ((await query.execute(db)).numAffectedRows ?? 0n) > 0n

import { sql } from 'kysely'
import type { Db } from '../../db/db.ts'

export type WorkerRow = { id: string; host: string; processId: number }

/** Name of the session by which other workers see that this one is alive. */
export const nameSession = (workerId: string): string => `${SESSION_PREFIX}${workerId}`

const SESSION_PREFIX = 'assay-jobs '

/** SQL condition on a row of `workers`: no database session shows that the worker is alive. */
export const hasNoSession = sql`not exists (
  select from pg_stat_activity where application_name = ${SESSION_PREFIX} || workers.id
)`

/**
 * Lists the workers of this host that hold jobs but have no session. A worker whose process had the same id as this one
 * is listed only if it registered before this process started, `uptimeMs` ago.
 */
export async function listWorkersWithoutSession(
  db: Db,
  { host, processId }: WorkerRow,
  uptimeMs: number,
): Promise<{ workerId: string; processId: number }[]> {
  const { rows } = await sql<{ workerId: string; processId: number }>`
    select id as "workerId", process_id as "processId" from workers
    where host = ${host} and ${hasNoSession}
      and (process_id <> ${processId} or started_at < now() - ${uptimeMs}::float8 * interval '1 ms')
      and exists (select from jobs where worker_id = workers.id and state = 'running')
  `.execute(db)
  return rows
}

export const upsertWorker = (db: Db, worker: WorkerRow) =>
  sql`insert into workers (id, host, process_id) values (${worker.id}, ${worker.host}, ${worker.processId})
    on conflict (id) do update set seen_at = now()`.execute(db)

export const deleteWorker = (db: Db, id: string) => db.deleteFrom('workers').where('id', '=', id).execute()

/** Counts worker processes whose last heartbeat is at most `withinSeconds` old. */
export async function countLiveWorkers(db: Db, withinSeconds: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(distinct (host, process_id))::int as count from workers where seen_at > now() - make_interval(secs => ${withinSeconds})
  `.execute(db)
  return rows[0]?.count ?? 0
}

type WorkerProcessRow = { host: string; processId: number; startedAt: Date; seenAt: Date; jobs: number }

/** Lists processes, each of which can have several workers. */
export async function listWorkerProcesses(db: Db, withinSeconds: number): Promise<WorkerProcessRow[]> {
  const { rows } = await sql<WorkerProcessRow>`
    select host, process_id as "processId", min(workers.started_at) as "startedAt", max(workers.seen_at) as "seenAt",
      count(jobs.id)::int as jobs
    from workers left join jobs on jobs.worker_id = workers.id and jobs.state = 'running'
    where workers.seen_at > now() - make_interval(secs => ${withinSeconds})
    group by host, process_id order by host, process_id
  `.execute(db)
  return rows
}

/** Deletes the rows of workers that have not reported for an hour. */
export const deleteOldWorkers = (tx: Db) =>
  sql`delete from workers where seen_at < now() - interval '1 hour'`.execute(tx)

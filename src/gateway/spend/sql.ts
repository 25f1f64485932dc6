import { sql } from 'kysely'
import type { Db } from '../../platform/db/db.ts'
import type { Terms } from '../ledger.ts'
import type { Holder } from '../sql.ts'

export async function readSpendSince(db: Db, { workspaceId, subject }: Holder, since: Date): Promise<number> {
  const { rows } = await sql<{ spent: number }>`
    select coalesce(sum(spent_micros), 0)::bigint as spent from gateway_grants
    where workspace_id = ${workspaceId} and subject = ${subject} and created_at >= ${since}`.execute(db)
  return rows[0]?.spent ?? 0
}

/** Lists grantees with closed or expired grants that have been left uncounted for so long. */
export async function listUncounted(db: Db, seconds: number, limit: number): Promise<Holder[]> {
  const { rows } = await sql<Holder>`
    select distinct workspace_id as "workspaceId", subject from gateway_grants
    where counted_at is null and least(closed_at, expires_at) < now() - make_interval(secs => ${seconds})
    limit ${limit}`.execute(db)
  return rows
}

/** `earlierMicros`: the part of the settled spend that was spent before the last grant. */
export type SubjectSpend = { subject: string; settledMicros: number; pendingMicros: number; earlierMicros: number }

export async function listSubjectSpend(db: Db, workspaceId: string, subjects: readonly string[]) {
  const { rows } = await sql<SubjectSpend>`
    select subject, sum(spent_micros - pending_micros)::bigint as "settledMicros",
      sum(pending_micros)::bigint as "pendingMicros",
      coalesce(sum(spent_micros - pending_micros) filter (where place > 1), 0)::bigint as "earlierMicros"
    from (
      select subject, spent_micros, pending_micros, row_number() over (partition by subject order by created_at desc, id desc) as place
      from gateway_grants where workspace_id = ${workspaceId} and subject = any(${subjects}::text[])
    ) as grants
    group by subject`.execute(db)
  return rows
}

type Frozen = { catalogId: string; prices: Terms['prices']; from: Date; to: Date }

export async function listFrozenPrices(db: Db, workspaceId: string, subjects: readonly string[]): Promise<Frozen[]> {
  const { rows } = await sql<Frozen>`
    select terms->>'catalogId' as "catalogId", terms->'prices' as prices, min(created_at) as from, max(created_at) as to
    from gateway_grants where workspace_id = ${workspaceId} and subject = any(${subjects}::text[])
    group by 1, 2 order by 1, 3`.execute(db)
  return rows
}

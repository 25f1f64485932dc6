import { type Selectable, sql } from 'kysely'
import type { Protocol } from '../harnesses/model-access.ts'
import { type Db, lock } from '../platform/db/db.ts'
import { kept } from '../platform/db/kept.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import {
  type Call,
  type FailureKind,
  FINAL,
  type Grant,
  type GrantRefusal,
  type GrantState,
  isFinal,
  type NewCall,
  type NewGrant,
  type Refusal,
  type Settlement,
  type Terms,
} from './ledger.ts'
import type { Usage } from './wire.ts'

export const lockSubject = (tx: Db, { workspaceId, subject }: NewGrant) => lock(tx, `grant ${workspaceId} ${subject}`)

export const closeGrantsOf = (db: Db, { workspaceId, subject }: NewGrant) =>
  db
    .updateTable('gateway_grants')
    .set({ closed_at: sql<Date>`now()` })
    .where('workspace_id', '=', workspaceId)
    .where('subject', '=', subject)
    .where('closed_at', 'is', null)
    .execute()

export const insertGrant = (db: Db, grant: NewGrant) =>
  db
    .insertInto('gateway_grants')
    .values({
      id: grant.id,
      workspace_id: grant.workspaceId,
      subject: grant.subject,
      credential_id: grant.credentialId,
      token_hash: grant.tokenHash,
      listener_hash: grant.listenerHash,
      terms: JSON.stringify(grant.terms),
      budget_micros: grant.budgetMicros,
      calls_max: grant.callsMax,
      expires_at: grant.expiresAt,
    })
    .execute()

export async function findGrantByListener(db: Db, hash: Buffer): Promise<Grant | undefined> {
  const row = await db
    .selectFrom('gateway_grants')
    .select([...FACTS, sql<Terms>`terms`.as('terms'), 'token_hash'])
    .where('listener_hash', '=', hash)
    .executeTakeFirst()
  return row && { ...factsOf(row), tokenHash: row.token_hash }
}

/**
 * One statement, and so one round trip: the grant has room, and the call has its place in it. Parallel calls of a grant
 * wait here for each other, so the sum is never wrong. False: there is no room.
 */
export async function reserveCall(db: Db, call: NewCall): Promise<boolean> {
  const amount = call.reservedMicros
  const source = amount === null ? 'unknown' : 'reserved'
  const { rows } = await sql`${kept}
    with taken as (
      update gateway_grants
      set calls = calls + 1, spent_micros = spent_micros + coalesce(${amount}::bigint, 0)
      where id = ${call.grantId} and closed_at is null and expires_at > now() and calls < calls_max
        and (budget_micros is null or spent_micros + coalesce(${amount}::bigint, 0) <= budget_micros)
      returning id
    )
    insert into gateway_calls
      (id, grant_id, gateway_id, kind, protocol, helper, level_asked, reserved_micros, cost_micros, cost_source)
    select ${call.id}, taken.id, ${call.gatewayId}::uuid, ${call.kind}, ${call.protocol}, ${call.helper},
      ${call.levelAsked && JSON.stringify(call.levelAsked)}::jsonb, ${amount}::bigint, ${amount}::bigint, ${source}
    from taken
    returning 1`.execute(db)
  return rows.length > 0
}

/** Why the grant has no room for it, by what it is now; undefined when it has. */
export async function findRefusal(db: Db, call: NewCall): Promise<GrantRefusal | undefined> {
  const { rows } = await sql<{ reason: GrantRefusal | null }>`
    select case
      when closed_at is not null then 'closed'
      when expires_at <= now() then 'expired'
      when calls >= calls_max then 'calls'
      when spent_micros + coalesce(${call.reservedMicros}::bigint, 0) > budget_micros then 'budget'
    end as reason
    from gateway_grants where id = ${call.grantId}`.execute(db)
  return rows.length === 0 ? 'closed' : (rows[0]?.reason ?? undefined)
}

/** One that is final stays the last until another is. */
export const countRefusal = (db: Db, grantId: string, reason: Refusal) => {
  const isLast = sql<boolean>`(${isFinal(reason)} or last_refusal is null or not last_refusal = any(${[...FINAL]}))`
  return sql`
    update gateway_grants set
      refusals = refusals || jsonb_build_object(${reason}::text, coalesce((refusals ->> ${reason}::text)::bigint, 0) + 1),
      last_refusal = case when ${isLast} then ${reason} else last_refusal end,
      refused_at = case when ${isLast} then now() else refused_at end
    where id = ${grantId}`.execute(db)
}

/**
 * The grant gets back what the reservation was too high; where nobody knows the cost, nothing. It does not wait for the
 * disk: a database that loses its power in that moment has the call at its reservation, and says so.
 */
export const settleCall = (db: Db, callId: string, settled: Settlement) =>
  sql`${kept}
    with quick as materialized (
      select set_config('synchronous_commit', 'off', true) as mode
    ), call as (
      update gateway_calls set
        settled_at = now(), outcome = ${settled.outcome}, cost_micros = ${settled.costMicros}::bigint,
        cost_source = ${settled.costSource}, input = ${settled.usage.input}, cache_read = ${settled.usage.cacheRead},
        cache_write_5m = ${settled.usage.cacheWrite5m}, cache_write_1h = ${settled.usage.cacheWrite1h},
        output = ${settled.usage.output}, reasoning = ${settled.usage.reasoning}, status = ${settled.status},
        failure = ${settled.failure}, tries = ${settled.tries}, served_model = ${settled.servedModel},
        service_tier = ${settled.serviceTier}, is_refusal = ${settled.isRefusal}, client_left = ${settled.clientLeft},
        first_byte_ms = ${settled.firstByteMs}, total_ms = ${settled.totalMs}, bodies = ${settled.bodies}
      from quick
      where id = ${callId} and settled_at is null and quick.mode = 'off'
      returning grant_id, coalesce(cost_micros, reserved_micros, 0) - coalesce(reserved_micros, 0) as difference
    )
    update gateway_grants set spent_micros = spent_micros + call.difference
    from call where gateway_grants.id = call.grant_id`.execute(db)

export const closeGrantRow = (db: Db, id: string) =>
  db
    .updateTable('gateway_grants')
    .set({ closed_at: sql<Date>`now()` })
    .where('id', '=', id)
    .where('closed_at', 'is', null)
    .execute()

export async function countOpenCallRows(db: Db, grantId: string): Promise<number> {
  const { open } = await db
    .selectFrom('gateway_calls')
    .select((is) => is.fn.countAll<number>().as('open'))
    .where('grant_id', '=', grantId)
    .where('settled_at', 'is', null)
    .executeTakeFirstOrThrow()
  return open
}

/** Those that were dead for a day are forgotten: no call of theirs is open any more. */
export async function noteGateway(db: Db, id: string): Promise<void> {
  await db
    .insertInto('gateways')
    .values({ id })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ seen_at: sql<Date>`now()` }))
    .execute()
  await db.deleteFrom('gateways').where('seen_at', '<', sql<Date>`now() - interval '1 day'`).execute()
}

/** A gateway that was not heard of for so long is dead. Shorter than the wait for calls that are open. */
const SILENCE_MS = 12_000

const isOfTheDead = (silenceMs: number) => sql<boolean>`gateway_id is not null and not exists (
  select from gateways where gateways.id = gateway_calls.gateway_id
    and seen_at > now() - make_interval(secs => ${silenceMs / 1000}))`

export const loseOpenCalls = (db: Db, grantId: string, silenceMs: number = SILENCE_MS) =>
  db
    .updateTable('gateway_calls')
    .set({
      outcome: 'lost',
      settled_at: sql<Date>`now()`,
      failure: sql<FailureKind | null>`case when ${isOfTheDead(silenceMs)} then 'gateway' end`,
    })
    .where('grant_id', '=', grantId)
    .where('settled_at', 'is', null)
    .execute()

export const listOldBodies = (db: Db, days: number, limit: number) =>
  db
    .selectFrom('gateway_calls')
    .select(['id', sql<string>`bodies`.as('bodies')])
    .where('bodies', 'is not', null)
    .where('settled_at', '<', sql<Date>`now() - make_interval(days => ${days})`)
    .limit(limit)
    .execute()

export const forgetBodies = (db: Db, callId: string) =>
  db.updateTable('gateway_calls').set({ bodies: null }).where('id', '=', callId).execute()

export async function readGrantState(db: Db, id: string): Promise<GrantState | undefined> {
  const row = await db
    .selectFrom('gateway_grants')
    .select([...FACTS, sql<Terms>`terms`.as('terms'), 'spent_micros', 'refused_at', 'closed_at'])
    .select([sql<GrantState['refusals']>`refusals`.as('refusals'), sql<Refusal | null>`last_refusal`.as('reason')])
    .where('id', '=', id)
    .executeTakeFirst()
  if (!row) return undefined
  const { reason, refused_at: at } = row
  return {
    grant: factsOf(row),
    spentMicros: row.spent_micros,
    refusals: row.refusals,
    lastRefusal: reason && at ? { reason, at } : null,
    closedAt: row.closed_at,
    calls: await listCalls(db, id),
  }
}

const FACTS = ['id', 'workspace_id', 'subject', 'credential_id', 'budget_micros', 'calls_max', 'expires_at'] as const

const factsOf = (row: Pick<Selectable<DB['gateway_grants']>, (typeof FACTS)[number]> & { terms: Terms }) => ({
  id: row.id,
  workspaceId: row.workspace_id,
  subject: row.subject,
  credentialId: row.credential_id,
  terms: row.terms,
  budgetMicros: row.budget_micros,
  callsMax: row.calls_max,
  expiresAt: row.expires_at,
})

const listCalls = (db: Db, grantId: string): Promise<Call[]> =>
  selectCalls(db).where('grant_id', '=', grantId).orderBy('started_at').orderBy('gateway_calls.id').execute()

const selectCalls = (db: Db) =>
  db
    .selectFrom('gateway_calls')
    .select(['gateway_calls.id', 'kind', 'helper', 'outcome', 'status', 'tries', 'bodies', 'grant_id as grantId'])
    .select('gateway_id as gatewayId')
    .select([sql<Protocol>`protocol`.as('protocol'), sql<FailureKind | null>`failure`.as('failure')])
    .select(sql<NewCall['levelAsked']>`level_asked`.as('levelAsked'))
    .select(['reserved_micros as reservedMicros', 'cost_micros as costMicros', 'cost_source as costSource'])
    .select(['served_model as servedModel', 'service_tier as serviceTier', 'is_refusal as isRefusal'])
    .select(['client_left as clientLeft', 'first_byte_ms as firstByteMs', 'total_ms as totalMs'])
    .select(['started_at as startedAt', 'settled_at as settledAt'])
    .select(
      sql<Usage>`jsonb_build_object('input', input, 'cacheRead', cache_read, 'cacheWrite5m', cache_write_5m,
        'cacheWrite1h', cache_write_1h, 'output', output, 'reasoning', reasoning)`.as('usage'),
    )

type Holder = { workspaceId: string; subject: string }

export async function readSpendSince(db: Db, { workspaceId, subject }: Holder, since: Date): Promise<number> {
  const { rows } = await sql<{ spent: number }>`
    select coalesce(sum(spent_micros), 0)::bigint as spent from gateway_grants
    where workspace_id = ${workspaceId} and subject = ${subject} and created_at >= ${since}`.execute(db)
  return rows[0]?.spent ?? 0
}

/** What a subject has spent since it was last asked, in grants that are closed. Calls that are open stay at their reservations. */
export async function takeSpend(tx: Db, { workspaceId, subject }: Holder): Promise<number> {
  const { rows } = await sql<{ id: string; spent: number }>`
    update gateway_grants set counted_at = now()
    where workspace_id = ${workspaceId} and subject = ${subject} and closed_at is not null and counted_at is null
    returning id, spent_micros as spent`.execute(tx)
  for (const { id } of rows) await loseOpenCalls(tx, id)
  return rows.reduce((sum, { spent }) => sum + spent, 0)
}

/** Whose spend nobody has asked for, though it ended some time ago. */
export async function listUncounted(db: Db, seconds: number, limit: number): Promise<Holder[]> {
  const { rows } = await sql<Holder>`
    select distinct workspace_id as "workspaceId", subject from gateway_grants
    where counted_at is null and least(closed_at, expires_at) < now() - make_interval(secs => ${seconds})
    limit ${limit}`.execute(db)
  return rows
}

/** The calls of all grants that a subject has had, in the order in which they were made. */
export const listCallsOf = (
  db: Db,
  { workspaceId, subject }: Holder,
  page: { limit: number; after?: string | undefined },
) =>
  selectCalls(db)
    .innerJoin('gateway_grants', 'gateway_grants.id', 'grant_id')
    .where('workspace_id', '=', workspaceId)
    .where('subject', '=', subject)
    .$if(page.after !== undefined, (query) => query.where('gateway_calls.id', '>', page.after ?? ''))
    .orderBy('gateway_calls.id')
    .limit(page.limit)
    .execute()

type Frozen = { catalogId: string; prices: Terms['prices']; from: Date; to: Date }

export async function listFrozenPrices(db: Db, workspaceId: string, subjects: readonly string[]): Promise<Frozen[]> {
  const { rows } = await sql<Frozen>`
    select terms->>'catalogId' as "catalogId", terms->'prices' as prices, min(created_at) as from, max(created_at) as to
    from (
      select distinct on (subject) terms, created_at from gateway_grants
      where workspace_id = ${workspaceId} and subject = any(${subjects}::text[]) order by subject, created_at desc
    ) as last
    group by 1, 2 order by 1, 3`.execute(db)
  return rows
}

export async function findSettings(db: Db, workspaceId: string): Promise<{ recordBodies: boolean } | undefined> {
  return db
    .selectFrom('gateway_settings')
    .select('record_bodies as recordBodies')
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst()
}

export const storeSettings = (tx: Db, workspaceId: string, { recordBodies }: { recordBodies: boolean }) =>
  tx
    .insertInto('gateway_settings')
    .values({ workspace_id: workspaceId, record_bodies: recordBodies })
    .onConflict((conflict) => conflict.column('workspace_id').doUpdateSet({ record_bodies: recordBodies }))
    .execute()

export const findBodies = async (db: Db, workspaceId: string, callId: string): Promise<string | null | undefined> =>
  (
    await db
      .selectFrom('gateway_calls')
      .innerJoin('gateway_grants', 'gateway_grants.id', 'grant_id')
      .select('bodies')
      .where('workspace_id', '=', workspaceId)
      .where('gateway_calls.id', '=', callId)
      .executeTakeFirst()
  )?.bodies

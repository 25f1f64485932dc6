import { type Selectable, sql } from 'kysely'
import type { Protocol } from '../harnesses/model-access.ts'
import { type Db, executePrepared, lock } from '../platform/db/db.ts'
import type { DB } from '../platform/db/tables.gen.ts'
import {
  type BudgetKind,
  type FailureKind,
  FINAL_REFUSALS,
  type Grant,
  type GrantState,
  isFinalRefusal,
  type NewCall,
  type NewGrant,
  type RecordedCall,
  type Refusal,
  type ReservationRefused,
  type Settlement,
  type SharedBudgetState,
  type Terms,
} from './ledger.ts'
import type { Usage } from './wire-protocol.ts'

export const lockGrantee = (tx: Db, { workspaceId, grantee }: NewGrant) => lock(tx, `grant ${workspaceId} ${grantee}`)

export const closeGranteeGrants = (db: Db, { workspaceId, grantee }: NewGrant) =>
  db
    .updateTable('gateway_grants')
    .set({ closed_at: sql<Date>`now()` })
    .where('workspace_id', '=', workspaceId)
    .where('subject', '=', grantee)
    .where('closed_at', 'is', null)
    .execute()

export const insertGrant = (db: Db, grant: NewGrant) =>
  db
    .insertInto('gateway_grants')
    .values({
      id: grant.id,
      workspace_id: grant.workspaceId,
      subject: grant.grantee,
      credential_id: grant.credentialId,
      token_hash: grant.tokenHash,
      listener_hash: grant.tunnelSecretHash,
      terms: JSON.stringify(grant.terms),
      budget_micros: grant.budgetMicros,
      shared_budget: grant.sharedBudget ?? null,
      calls_max: grant.callsMax,
      expires_at: grant.expiresAt,
    })
    .execute()

export async function findGrantByTunnelSecret(db: Db, hash: Buffer): Promise<Grant | undefined> {
  const row = await db
    .selectFrom('gateway_grants')
    .select([...GRANT_COLUMNS, sql<Terms>`terms`.as('terms'), 'token_hash'])
    .where('listener_hash', '=', hash)
    .executeTakeFirst()
  return row && { ...toGrantFacts(row), tokenHash: row.token_hash }
}

/** Updates nothing if the grant is closed, expired or unknown. */
export const replaceTunnelSecret = (db: Db, id: string, hash: Buffer) =>
  sql`update gateway_grants set listener_hash = ${hash}
      where id = ${id} and closed_at is null and expires_at > now()`.execute(db)

type ReservationRow = { reservedMicros: number | null; limitedBy: BudgetKind | null }

/**
 * Reserves a call in one statement: the grant and its shared budget are checked, locked and charged together, so that
 * concurrent calls, also of other gateways, never exceed either. Returns undefined if the call does not fit.
 */
export async function reserveCall(db: Db, call: NewCall): Promise<ReservationRow | undefined> {
  const { mostMicros = null, usualMicros = null, leastMicros = null } = call.bounds ?? {}
  const { rows } = await executePrepared(
    db,
    sql<ReservationRow>`
    with own as materialized (
      select id, shared_budget, budget_micros - spent_micros as own_available
      from gateway_grants
      where id = ${call.grantId} and closed_at is null and expires_at > now() and calls < calls_max
        and (budget_micros is null or spent_micros + coalesce(${leastMicros}::bigint, 0) <= budget_micros)
      for update
    ), shared as materialized (
      select gateway_budgets.id, budget_micros - spent_micros as shared_available
      from gateway_budgets join own on gateway_budgets.id = own.shared_budget
      where budget_micros is null or spent_micros + ${leastMicros}::bigint <= budget_micros
      for update of gateway_budgets
    ), amount as materialized (
      select own.id, own.shared_budget, own_available, case when ${mostMicros}::bigint is null then null else
        least(${mostMicros}::bigint, own_available, shared_available,
          case when shared_available is null then null else greatest(${usualMicros}::bigint, shared_available / 4) end)
      end as micros
      from own left join shared on true
      where own.shared_budget is null or shared.id is not null
    ), charged as (
      update gateway_budgets set spent_micros = spent_micros + coalesce(micros, 0),
        pending_micros = pending_micros + coalesce(micros, 0)
      from amount where gateway_budgets.id = amount.shared_budget
    ), taken as (
      update gateway_grants set calls = calls + 1, spent_micros = spent_micros + coalesce(micros, 0),
        pending_micros = pending_micros + coalesce(micros, 0)
      from amount where gateway_grants.id = amount.id
      returning gateway_grants.id, micros,
        case when micros = ${mostMicros}::bigint then null when micros = own_available then 'budget' else 'shared_budget' end
          as limited_by
    )
    insert into gateway_calls (id, grant_id, gateway_id, kind, protocol, helper, level_asked, reserved_micros,
      cost_micros, cost_source, limited_by)
    select ${call.id}, taken.id, ${call.gatewayId}::uuid, ${call.kind}, ${call.protocol}, ${call.helper},
      ${call.levelAsked && JSON.stringify(call.levelAsked)}::jsonb, micros, micros,
      case when micros is null then 'unknown' else 'reserved' end, case when micros is null then null else limited_by end
    from taken
    returning reserved_micros as "reservedMicros", limited_by as "limitedBy"`,
  )
  return rows[0]
}

/** Returns why a call does not fit the grant or its shared budget now, or undefined if it does. */
export async function findRefusal(db: Db, call: NewCall): Promise<Omit<ReservationRefused, 'kind'> | undefined> {
  const least = sql`${call.bounds?.leastMicros ?? null}::bigint`
  const { rows } = await sql<RefusalRow>`
    select case
        when closed_at is not null then 'closed'
        when expires_at <= now() then 'expired'
        when calls >= calls_max then 'calls'
        when own.spent_micros + coalesce(${least}, 0) > own.budget_micros then 'budget'
        when shared.budget_micros is not null and ${least} is null then 'price'
        when shared.spent_micros + ${least} > shared.budget_micros then 'shared_budget'
      end as reason,
      coalesce(own.spent_micros - own.pending_micros + ${least} <= own.budget_micros, true) and
        coalesce(shared.spent_micros - shared.pending_micros + ${least} <= shared.budget_micros, true) as "mayPass",
      shared.budget_micros as "totalMicros",
      shared.budget_micros - shared.spent_micros + own.pending_micros as "freeMicros",
      (select coalesce(max(cost_micros), 0) from gateway_calls where grant_id = own.id and settled_at is not null)
        as "largestCallMicros"
    from gateway_grants as own left join gateway_budgets as shared on shared.id = own.shared_budget
    where own.id = ${call.grantId}`.execute(db)
  const [found] = rows
  if (!found) return { reason: 'closed', mayPass: false }
  const { reason, mayPass, ...shared } = found
  if (!reason) return undefined
  return {
    reason,
    mayPass: mayPass === true && (reason === 'budget' || reason === 'shared_budget'),
    shared: reason === 'shared_budget' ? shared : undefined,
  }
}

type RefusalRow = SharedBudgetState & { reason: ReservationRefused['reason'] | null; mayPass: boolean | null }

/** Counts a refusal. A final one is only replaced by another final one as the last refusal. */
export const countRefusal = (db: Db, grantId: string, reason: Refusal) => {
  const isLast = sql<boolean>`(${isFinalRefusal(reason)} or last_refusal is null or not last_refusal = any(${[...FINAL_REFUSALS]}))`
  return sql`
    update gateway_grants set
      refusals = refusals || jsonb_build_object(${reason}::text, coalesce((refusals ->> ${reason}::text)::bigint, 0) + 1),
      last_refusal = case when ${isLast} then ${reason} else last_refusal end,
      refused_at = case when ${isLast} then now() else refused_at end
    where id = ${grantId}`.execute(db)
}

/**
 * Replaces the reservation of a call by its cost, in the grant and in its shared budget; if the cost is unknown, the
 * reservation stands. Also settles a call that was marked as lost because its gateway was slow. The commit is
 * asynchronous: after a power failure of the database, the call stands at its reservation.
 */
export const settleCall = (db: Db, callId: string, settled: Settlement) =>
  executePrepared(
    db,
    sql`
    with before as materialized (
      select id, case when settled_at is null then coalesce(reserved_micros, 0) else 0 end as pending,
        set_config('synchronous_commit', 'off', true) as mode
      from gateway_calls where id = ${callId} and (settled_at is null or outcome = 'lost') for update
    ), call as (
      update gateway_calls set
        settled_at = now(), outcome = ${settled.outcome}, cost_micros = ${settled.costMicros}::bigint,
        cost_source = ${settled.costSource}, input = ${settled.usage.input}, cache_read = ${settled.usage.cacheRead},
        cache_write_5m = ${settled.usage.cacheWrite5m}, cache_write_1h = ${settled.usage.cacheWrite1h},
        output = ${settled.usage.output}, reasoning = ${settled.usage.reasoning}, status = ${settled.status},
        failure = ${settled.failure}, tries = ${settled.tries}, served_model = ${settled.servedModel},
        service_tier = ${settled.serviceTier}, is_refusal = ${settled.isRefusal}, client_left = ${settled.clientLeft},
        first_byte_ms = ${settled.firstByteMs}, total_ms = ${settled.totalMs}, bodies = ${settled.bodies},
        output_limit = ${settled.outputLimit}, message = ${settled.message ?? null}
      from before where gateway_calls.id = before.id and before.mode = 'off'
      returning grant_id, pending, coalesce(cost_micros, reserved_micros, 0) - coalesce(reserved_micros, 0) as difference
    ), granted as (
      update gateway_grants set spent_micros = spent_micros + difference, pending_micros = pending_micros - pending,
        counted_at = case when difference = 0 then counted_at end
      from call where gateway_grants.id = call.grant_id
      returning shared_budget, difference, pending
    )
    update gateway_budgets set spent_micros = spent_micros + difference, pending_micros = pending_micros - pending
    from granted where gateway_budgets.id = granted.shared_budget`,
  )

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
    .select(({ fn }) => fn.countAll<number>().as('open'))
    .where('grant_id', '=', grantId)
    .where('settled_at', 'is', null)
    .executeTakeFirstOrThrow()
  return open
}

/** Records that a gateway is alive, and deletes gateways that died a day ago: none of their calls is open. */
export async function recordGatewayAlive(db: Db, id: string): Promise<void> {
  await db
    .insertInto('gateways')
    .values({ id })
    .onConflict((conflict) => conflict.column('id').doUpdateSet({ seen_at: sql<Date>`now()` }))
    .execute()
  await db.deleteFrom('gateways').where('seen_at', '<', sql<Date>`now() - interval '1 day'`).execute()
}

/** A gateway without a report for this long is dead. Shorter than the wait for open calls. */
const SILENCE_MS = 12_000

const isGatewayDead = (silenceMs: number) => sql<boolean>`not exists (
  select from gateways where gateways.id = gateway_calls.gateway_id
    and seen_at > now() - make_interval(secs => ${silenceMs / 1000}))`

/** Marks open calls of dead gateways as lost. Their cost is unknown, so their reservations stand. */
export async function markLostCalls(db: Db, grantId: string, silenceMs: number = SILENCE_MS): Promise<void> {
  await sql`
    with lost as (
      update gateway_calls set outcome = 'lost', settled_at = now(), failure = 'gateway'
      where grant_id = ${grantId} and settled_at is null and ${isGatewayDead(silenceMs)}
      returning coalesce(reserved_micros, 0) as reserved
    ), released as (
      update gateway_grants set pending_micros = pending_micros - (select coalesce(sum(reserved), 0) from lost)
      where id = ${grantId} and exists (select from lost)
      returning shared_budget
    )
    update gateway_budgets set pending_micros = pending_micros - (select coalesce(sum(reserved), 0) from lost)
    from released where gateway_budgets.id = released.shared_budget`.execute(db)
}

/** Selects calls with recorded bodies that were settled more than `days` ago. */
const selectOldBodies = (db: Db, days: number) =>
  db
    .selectFrom('gateway_calls')
    .where('bodies', 'is not', null)
    .where('settled_at', '<', sql<Date>`now() - make_interval(days => ${days})`)

export const listOldBodies = (db: Db, days: number, limit: number) =>
  selectOldBodies(db, days).select('id').select(sql<string>`bodies`.as('bodies')).limit(limit).execute()

export const countOldBodies = (db: Db, days: number) =>
  selectOldBodies(db, days).select(sql<number>`count(*)::int`.as('count')).executeTakeFirstOrThrow()

export const forgetBodies = (db: Db, callId: string) =>
  db.updateTable('gateway_calls').set({ bodies: null }).where('id', '=', callId).execute()

export async function findGrantState(db: Db, id: string): Promise<GrantState | undefined> {
  const row = await db
    .selectFrom('gateway_grants')
    .select([...GRANT_COLUMNS, sql<Terms>`terms`.as('terms'), 'spent_micros', 'refused_at', 'closed_at'])
    .select([sql<GrantState['refusals']>`refusals`.as('refusals'), sql<Refusal | null>`last_refusal`.as('reason')])
    .where('id', '=', id)
    .executeTakeFirst()
  if (!row) return undefined
  const { reason, refused_at: at } = row
  return {
    grant: toGrantFacts(row),
    spentMicros: row.spent_micros,
    refusals: row.refusals,
    lastRefusal: reason && at ? { reason, at } : null,
    closedAt: row.closed_at,
    calls: await listCalls(db, id),
  }
}

const GRANT_COLUMNS = [
  'id',
  'workspace_id',
  'subject',
  'credential_id',
  'budget_micros',
  'shared_budget',
  'calls_max',
  'expires_at',
] as const

const toGrantFacts = (
  row: Pick<Selectable<DB['gateway_grants']>, (typeof GRANT_COLUMNS)[number]> & { terms: Terms },
) => ({
  id: row.id,
  workspaceId: row.workspace_id,
  grantee: row.subject,
  credentialId: row.credential_id,
  terms: row.terms,
  budgetMicros: row.budget_micros,
  sharedBudget: row.shared_budget,
  callsMax: row.calls_max,
  expiresAt: row.expires_at,
})

const listCalls = (db: Db, grantId: string): Promise<RecordedCall[]> =>
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
    .select(['limited_by as limitedBy', 'output_limit as outputLimit', 'message'])
    .select(
      sql<Usage>`jsonb_build_object('input', input, 'cacheRead', cache_read, 'cacheWrite5m', cache_write_5m,
        'cacheWrite1h', cache_write_1h, 'output', output, 'reasoning', reasoning)`.as('usage'),
    )

export type GranteeRef = { workspaceId: string; grantee: string }

/**
 * Returns the spend of a grantee in closed grants since the last call. Called in the transaction that stores the spend, so
 * that it is counted once. Reservations of open calls follow once they are settled; open calls of dead gateways are marked
 * as lost here.
 */
export async function takeSpendMicros(tx: Db, { workspaceId, grantee }: GranteeRef): Promise<number> {
  const isUncounted = sql`workspace_id = ${workspaceId} and subject = ${grantee} and closed_at is not null and counted_at is null`
  const open = await sql<{ id: string }>`
    select id from gateway_grants where ${isUncounted} and pending_micros > 0 order by id`.execute(tx)
  for (const { id } of open.rows) await markLostCalls(tx, id)
  const { rows } = await sql<{ taken: number }>`
    with grants as materialized (select id, counted_micros from gateway_grants where ${isUncounted} order by id for update)
    update gateway_grants set counted_micros = spent_micros - pending_micros,
      counted_at = case when pending_micros = 0 then now() end
    from grants where grants.id = gateway_grants.id
    returning gateway_grants.counted_micros - grants.counted_micros as taken`.execute(tx)
  return rows.reduce((sum, { taken }) => sum + taken, 0)
}

/** Lists the calls of all grants of a grantee in chronological order. */
export const listGranteeCalls = (
  db: Db,
  { workspaceId, grantee }: GranteeRef,
  page: { limit: number; after?: string | undefined },
) =>
  selectCalls(db)
    .innerJoin('gateway_grants', 'gateway_grants.id', 'grant_id')
    .where('workspace_id', '=', workspaceId)
    .where('subject', '=', grantee)
    .$if(page.after !== undefined, (query) => query.where('gateway_calls.id', '>', page.after ?? ''))
    .orderBy('gateway_calls.id')
    .limit(page.limit)
    .execute()

/** Lists the settled calls of all grants of a grantee. */
export const listSettledCalls = (db: Db, { workspaceId, grantee }: GranteeRef) =>
  selectCalls(db)
    .innerJoin('gateway_grants', 'gateway_grants.id', 'grant_id')
    .where('workspace_id', '=', workspaceId)
    .where('subject', '=', grantee)
    .where('kind', '=', 'generate')
    .where('outcome', '<>', 'open')
    .execute()

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

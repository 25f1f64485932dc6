import { type Db, transact } from '../../platform/db/db.ts'
import type { Call } from '../ledger.ts'
import * as rows from '../sql.ts'
import { callTotals, type GrantTotals } from '../totals.ts'
import * as reads from './sql.ts'

export type Holder = { workspaceId: string; subject: string }

/** Creates a budget that grants share, or changes its limit. Null: no limit. What is spent already stays counted. */
export const setSharedBudget = (tx: Db, budget: SharedBudget): Promise<void> => rows.upsertBudget(tx, budget)

export type SharedBudget = { id: string; workspaceId: string; budgetMicros: number | null }

/**
 * Returns what a grantee has spent in closed grants since this was last called, so that it is counted once, in the
 * transaction that writes what it was spent on. Open calls are left out until they are settled.
 */
export const takeSpend = (tx: Db, holder: Holder): Promise<number> => rows.takeSpend(tx, holder)

/** Cost and usage of all settled calls of all grants of a grantee. */
export type HolderSpend = Pick<GrantTotals, 'usage' | 'costMicros' | 'costSource'>

export async function readHolderSpend(db: Db, holder: Holder): Promise<HolderSpend> {
  const { usage, costMicros, costSource } = callTotals(await rows.listSettledCalls(db, holder))
  return { usage, costMicros, costSource }
}

export type SubjectSpend = reads.SubjectSpend

/** What each of these subjects has spent by now, by subject. Those that never had a grant are left out. */
export async function readSubjectSpend(
  db: Db,
  workspaceId: string,
  subjects: readonly string[],
): Promise<Map<string, SubjectSpend>> {
  const found = await reads.listSubjectSpend(db, workspaceId, subjects)
  return new Map(found.map((spend) => [spend.subject, spend]))
}

/** What it has spent in grants that were opened since then, counted or not. */
export const readSpendSince = (db: Db, holder: Holder, since: Date): Promise<number> =>
  reads.readSpendSince(db, holder, since)

const LEFT_SECONDS = 120
const AT_ONCE = 500

/** For those whose end nobody wrote down: `count` says false where somebody still will. */
export async function countLeftSpend(
  db: Db,
  count: (tx: Db, holder: Holder, take: () => Promise<number>) => Promise<void>,
): Promise<void> {
  for (const holder of await reads.listUncounted(db, LEFT_SECONDS, AT_ONCE))
    await transact(db, (tx) => count(tx, holder, () => rows.takeSpend(tx, holder)))
}

/** The calls that a subject made, the oldest first. */
export const listCallsOf = (
  db: Db,
  holder: Holder,
  page: { limit: number; after?: string | undefined },
): Promise<Call[]> => rows.listCallsOf(db, holder, page)

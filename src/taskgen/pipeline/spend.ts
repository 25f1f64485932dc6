import { countUncountedSpend, type GranteeRef, takeSpend } from '../../gateway/spend/spend.ts'
import type { Db } from '../../platform/db/db.ts'
import { findTask } from './facts.ts'
import { addSpend, type TaskKey } from './sql.ts'

const ROLES = ['author', 'verifier'] as const
export type ModelRole = (typeof ROLES)[number]

/** Returns the grantee of the grants of a task. */
export const granteeOf = ({ batch, task }: TaskKey, role: ModelRole): string => `batch ${batch} ${task} ${role}`

const GRANTEE = /^batch ([0-9a-f-]{36}) (\S+) (author|verifier)$/

/** Counts the task's spend since the last count, in the transaction that stores the result. */
export async function countSpend(tx: Db, key: TaskKey & { workspaceId: string }): Promise<void> {
  let micros = 0
  for (const role of ROLES)
    micros += await takeSpend(tx, { workspaceId: key.workspaceId, grantee: granteeOf(key, role) })
  if (micros > 0) await addSpend(tx, key, micros)
}

/** Counts spend of canceled tasks and of tasks whose worker died. */
export const countRemainingSpend = (db: Db): Promise<void> => countUncountedSpend(db, countRemaining)

async function countRemaining(tx: Db, { grantee }: GranteeRef, take: () => Promise<number>): Promise<void> {
  const [, batch, task] = GRANTEE.exec(grantee) ?? []
  if (batch === undefined || task === undefined) return
  // Counted when the stage is settled.
  if (await findTask(tx, { batch, task })) return
  await addSpend(tx, { batch, task }, await take())
}

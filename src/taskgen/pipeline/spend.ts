import { countLeftSpend, type Holder, takeSpend } from '../../gateway/spend/spend.ts'
import type { Db } from '../../platform/db/db.ts'
import { findTask } from './facts.ts'
import { addSpend, type TaskKey } from './sql.ts'

const ROLES = ['author', 'verifier'] as const
export type Role = (typeof ROLES)[number]

/** For whom a grant is. */
export const subjectOf = ({ batch, task }: TaskKey, role: Role): string => `batch ${batch} ${task} ${role}`

const SUBJECT = /^batch ([0-9a-f-]{36}) (\S+) (author|verifier)$/

/** What a task spent since it was last counted, in the transaction that writes what it was spent on. */
export async function countSpend(tx: Db, key: TaskKey & { workspaceId: string }): Promise<void> {
  let micros = 0
  for (const role of ROLES)
    micros += await takeSpend(tx, { workspaceId: key.workspaceId, subject: subjectOf(key, role) })
  if (micros > 0) await addSpend(tx, key, micros)
}

/** Of tasks that were canceled, or whose worker died as they were: what they spent is spent all the same. */
export const countLeftOfBatches = (db: Db): Promise<void> => countLeftSpend(db, countLeft)

async function countLeft(tx: Db, { subject }: Holder, take: () => Promise<number>): Promise<void> {
  const [, batch, task] = SUBJECT.exec(subject) ?? []
  if (batch === undefined || task === undefined) return
  // Whoever ends its stage counts it.
  if (await findTask(tx, { batch, task })) return
  await addSpend(tx, { batch, task }, await take())
}

import { sql } from 'kysely'
import type { Db } from '../../../platform/db/db.ts'

export const findCalibration = (db: Db, digest: string, sandbox: string) =>
  db
    .selectFrom('task_calibrations')
    .select([
      'verify_mode as verifyMode',
      'agent_network as agentNetwork',
      'verifier_network as verifierNetwork',
      'reason',
    ])
    .where('digest', '=', digest)
    .where('sandbox', '=', sandbox)
    .executeTakeFirst()

type NewCalibration = { digest: string; sandbox: string } & Record<
  'verify_mode' | 'agent_network' | 'verifier_network' | 'reason',
  string | null
>

export const insertCalibration = (db: Db, calibration: NewCalibration) =>
  db
    .insertInto('task_calibrations')
    .values(calibration)
    .onConflict((conflict) => conflict.columns(['digest', 'sandbox']).doNothing())
    .execute()

/** Runs `work` if nobody else holds the name, on a connection whose end gives it back. Undefined: somebody does. */
export const ifUnlocked = <T>(db: Db, name: string, work: () => Promise<T>): Promise<{ done: T } | undefined> =>
  db.connection().execute(async (own) => {
    const { rows } = await sql<{ held: boolean }>`
      select pg_try_advisory_lock(hashtextextended(${name}, 0)) as held`.execute(own)
    if (!rows[0]?.held) return undefined
    try {
      return { done: await work() }
    } finally {
      await sql`select pg_advisory_unlock(hashtextextended(${name}, 0))`.execute(own)
    }
  })

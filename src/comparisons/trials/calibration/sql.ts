import { sql } from 'kysely'
import type { Db } from '../../../platform/db/db.ts'
import { CALIBRATION_RULES } from '../../../trials/calibrate.ts'

export const findCalibration = (db: Db, digest: string, sandbox: string) =>
  db
    .selectFrom('task_calibrations')
    .select([
      'verify_mode as verifyMode',
      'agent_network as agentNetwork',
      'verifier_network as verifierNetwork',
      'carried',
      'reason',
    ])
    .where('digest', '=', digest)
    .where('sandbox', '=', sandbox)
    .where('rules', '=', CALIBRATION_RULES)
    .executeTakeFirst()

type NewCalibration = { digest: string; sandbox: string; carried: string[] } & Record<
  'verify_mode' | 'agent_network' | 'verifier_network' | 'reason',
  string | null
>

/** Stores a calibration. Replaces one that was made by other rules. */
export const insertCalibration = (db: Db, calibration: NewCalibration) => {
  const row = { ...calibration, rules: CALIBRATION_RULES }
  return db
    .insertInto('task_calibrations')
    .values(row)
    .onConflict((conflict) =>
      conflict
        .columns(['digest', 'sandbox'])
        .doUpdateSet({ ...row, at: sql`now()` })
        .where('task_calibrations.rules', '<>', CALIBRATION_RULES),
    )
    .execute()
}

/** Runs `work` under an advisory lock, which is released when its connection closes. Returns undefined if it is taken. */
export const withTryLock = <T>(db: Db, name: string, work: () => Promise<T>): Promise<{ result: T } | undefined> =>
  db.connection().execute(async (connection) => {
    const { rows } = await sql<{ held: boolean }>`
      select pg_try_advisory_lock(hashtextextended(${name}, 0)) as held`.execute(connection)
    if (!rows[0]?.held) return undefined
    try {
      return { result: await work() }
    } finally {
      await sql`select pg_advisory_unlock(hashtextextended(${name}, 0))`.execute(connection)
    }
  })

import type { Db } from '../../platform/db/db.ts'
import { hasOpen } from './sql.ts'

export const hasOpenTrials = (db: Db, key: number): Promise<boolean> => hasOpen(db, key)

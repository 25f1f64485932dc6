import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { newKey } from '../src/workspaces/key.ts'
import { startService } from '../test/support/service.ts'
import { withPostgres } from './postgres.ts'

/** A running API with an admin key, its data folder and its database. */
export type BenchApi = { url: string; key: string; folder: string; pool: pg.Pool }

/** Starts the API on a new database, and removes both after `work`. */
export const withApi = <T>(work: (api: BenchApi) => Promise<T>): Promise<T> =>
  withPostgres(async (database) => {
    const folder = mkdtempSync(join(tmpdir(), 'assay-bench-'))
    const key = newKey()
    const service = await startService('api', ['--port', '0', '--data', folder], {
      DATABASE_URL: database,
      ASSAY_BOOTSTRAP_KEY: key,
    })
    const pool = new pg.Pool({ connectionString: database, max: 2 })
    try {
      return await work({ url: service.url, key, folder, pool })
    } finally {
      await pool.end()
      await service.kill('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  })

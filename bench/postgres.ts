import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../src/platform/postgres/postgres.ts'
import { toDatabaseUrl } from '../src/store.ts'

/** Starts a durable embedded server for one measurement. */
export async function withPostgres<T>(work: (url: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'assay-bench-'))
  const postgres = await startPostgres({ folder })
  try {
    return await work(toDatabaseUrl(postgres.connection))
  } finally {
    await postgres.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}

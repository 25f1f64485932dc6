import { DatabaseSync } from 'node:sqlite'
import type { Folder } from './folder.ts'
import { PostgresUnavailable } from './unavailable.ts'
import { waitUntil } from './wait-until.ts'

const SQLITE_BUSY = 5
/** Longer than a start takes on a slow disk. */
const LOCK_MS = 180_000

/**
 * One process at a time starts or stops the server. Node has no file locks of its own; SQLite brings
 * one that the kernel drops when its holder dies, so no dead process is ever waited for.
 */
export async function lockFolder(folder: Folder): Promise<AsyncDisposable> {
  const file = openFile(folder)
  const locked = await waitUntil(LOCK_MS, async () => tryLock(file, folder))
  if (locked) return { [Symbol.asyncDispose]: async () => file.close() }
  file.close()
  throw notLocked(folder, `another Assay has been starting or stopping it for ${LOCK_MS / 1000} s`)
}

function openFile(folder: Folder): DatabaseSync {
  try {
    return new DatabaseSync(folder.lock)
  } catch (error) {
    throw notLocked(folder, String(error))
  }
}

function tryLock(file: DatabaseSync, folder: Folder): true | undefined {
  try {
    // Without a journal file nothing is written, so that a full disk does not matter.
    file.exec('pragma journal_mode = memory; begin exclusive')
    return true
  } catch (error) {
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return undefined
    file.close()
    throw notLocked(folder, String(error))
  }
}

const notLocked = (folder: Folder, why: string): PostgresUnavailable =>
  new PostgresUnavailable(`PostgreSQL in ${folder.path} could not be locked: ${why}.`, 'Try again when that is over')

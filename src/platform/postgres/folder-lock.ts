import { DatabaseSync } from 'node:sqlite'
import type { ServerFolder } from './folder.ts'
import { PostgresUnavailable } from './unavailable.ts'
import { waitUntil } from './wait-until.ts'

const SQLITE_BUSY = 5
/** Longer than a start takes on a slow disk. */
const LOCK_MS = 180_000

/**
 * Takes the lock under which the server is started or stopped. Node has no file locks; SQLite has one that the kernel
 * releases when its holder dies, so nothing waits for a dead process.
 */
export async function lockFolder(folder: ServerFolder): Promise<AsyncDisposable> {
  const file = openFile(folder)
  const locked = await waitUntil(LOCK_MS, async () => tryLock(file, folder))
  if (locked) return { [Symbol.asyncDispose]: async () => file.close() }
  file.close()
  throw notLocked(folder, `another Assay has been starting or stopping it for ${LOCK_MS / 1000} s`)
}

function openFile(folder: ServerFolder): DatabaseSync {
  try {
    return new DatabaseSync(folder.lock)
  } catch (error) {
    throw notLocked(folder, String(error))
  }
}

function tryLock(file: DatabaseSync, folder: ServerFolder): true | undefined {
  try {
    // An in-memory journal writes nothing, so that this works on a full disk.
    file.exec('pragma journal_mode = memory; begin exclusive')
    return true
  } catch (error) {
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return undefined
    file.close()
    throw notLocked(folder, String(error))
  }
}

const notLocked = (folder: ServerFolder, reason: string): PostgresUnavailable =>
  new PostgresUnavailable(`PostgreSQL in ${folder.path} could not be locked: ${reason}.`, 'Try again later')

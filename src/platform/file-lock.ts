import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

const SQLITE_BUSY = 5
const POLL_MS = 10

/**
 * Locks a file for one process at a time. Node has no file locks; SQLite has one that the kernel releases when its holder
 * dies, so nothing waits for a dead process. Returns undefined if another process held the lock for the whole wait.
 */
export async function lockFile(
  path: string,
  waitMs: number,
  signal?: AbortSignal,
): Promise<AsyncDisposable | undefined> {
  const file = new DatabaseSync(path)
  const deadline = Date.now() + waitMs
  try {
    while (!tryLock(file)) {
      if (Date.now() >= deadline) {
        file.close()
        return undefined
      }
      await sleep(POLL_MS, undefined, { signal })
    }
  } catch (error) {
    file.close()
    throw error
  }
  return { [Symbol.asyncDispose]: async () => file.close() }
}

function tryLock(file: DatabaseSync): boolean {
  try {
    // A journal in memory means that nothing is written, so locking works on a full disk.
    file.exec('pragma journal_mode = memory; begin exclusive')
    return true
  } catch (error) {
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return false
    throw error
  }
}

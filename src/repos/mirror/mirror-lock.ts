import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

const SQLITE_BUSY = 5
const POLL_MS = 100

/**
 * One process at a time changes a mirror. Node has no file locks of its own; SQLite brings one that the kernel drops
 * when its holder dies. Undefined: somebody else held it for all that time.
 */
export async function lockMirror(
  path: string,
  waitMs: number,
  signal: AbortSignal,
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
    // Without a journal file nothing is written, so that a full disk does not matter.
    file.exec('pragma journal_mode = memory; begin exclusive')
    return true
  } catch (error) {
    if (error instanceof Error && 'errcode' in error && error.errcode === SQLITE_BUSY) return false
    throw error
  }
}

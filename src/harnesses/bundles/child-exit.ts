import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'

/** Waits for the end of a process and returns its exit code: 127 if the program was not found. */
export const exitCodeOf = (child: ChildProcess): Promise<number | null> =>
  once(child, 'close').then(
    ([code]): number | null => code,
    (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? 127 : 1),
  )

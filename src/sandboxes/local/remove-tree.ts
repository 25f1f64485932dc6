import { rm } from 'node:fs/promises'
import { runProgram, tryProgram } from '../kernel/run-program.ts'

/**
 * Removes a folder with untrusted contents. Node's `rm` is faster, but fails where folders are nested deeper than a
 * path can express; the program `rm` does not. Unreadable folders are opened first.
 */
export async function removeTree(path: string): Promise<void> {
  const isGone = await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 }).then(
    () => true,
    () => false,
  )
  if (isGone) return
  const words = ['-rf', '--', path]
  if ((await tryProgram('rm', words)).code === 0) return
  await tryProgram('chmod', ['-R', 'u+rwx', '--', path])
  await runProgram('rm', words)
}

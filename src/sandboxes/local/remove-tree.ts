import { rm } from 'node:fs/promises'
import { runProgram, tryProgram } from '../kernel/run-program.ts'

/**
 * Removes a folder in which strangers made what they liked. Node's own is quicker, but gives up where folders are nested
 * deeper than a path can say; `rm` does not. Those that nobody may look into are opened first.
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

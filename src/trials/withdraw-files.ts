import { buffer } from 'node:stream/consumers'
import type { Exit } from '../sandboxes/sandbox.ts'
import type { RunningSandbox } from './running-sandbox.ts'
import type { StepContext } from './step-context.ts'
import { packOriginals } from './withhold-files.ts'

const WITHDRAW_SECONDS = 60

/**
 * Removes the files of the configuration from a running sandbox and restores those of the task. It uses programs that the
 * agent may have replaced, as everything in a running sandbox does. Returns false if that failed.
 */
export async function withdrawFiles(context: StepContext, running: RunningSandbox): Promise<boolean> {
  const placed = context.placedFiles()
  if (!placed) return true
  const run = (command: string[], input?: Buffer): Promise<Exit> =>
    running.exec('withdraw', { command, user: 0, seconds: WITHDRAW_SECONDS, input })
  const removed = await run(['rm', '-rf', '--', ...placed.paths])
  // Folders that are not empty hold work of the agent and stay.
  if (placed.newFolders.length > 0) await run(['rmdir', '--', ...placed.newFolders.toReversed()])
  if (placed.originals.length === 0) return removed.code === 0
  const restored = await run(['tar', '-xf', '-', '-C', '/'], await buffer(packOriginals(placed.originals, '/')))
  return removed.code === 0 && restored.code === 0
}

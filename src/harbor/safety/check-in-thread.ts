import { openThreads } from '../../platform/threads/threads.ts'
import type { FileSource } from '../source.ts'
import { readContents, type SafetyCheck, type SafetyCheckOptions } from './check-task.ts'
import type { CheckTasks } from './check-thread.ts'

const SCRIPT = new URL('./check-thread.ts', import.meta.url)
const threads = openThreads<CheckTasks>(SCRIPT, { timeoutMs: 300_000, memoryMb: 1024 })

/** Checks a package of a registry and applies the rules in a thread: large scripts take seconds. */
export async function checkPackageInThread(
  source: FileSource,
  { buildHosts }: SafetyCheckOptions,
): Promise<SafetyCheck> {
  return threads.run('applyToContents', { contents: await readContents(source, { includeIgnored: true }), buildHosts })
}

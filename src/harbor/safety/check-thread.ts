import { serveTasks } from '../../platform/threads.ts'
import { applyRules, type SafetyCheck, type SafetyCheckOptions } from './check-task.ts'
import type { TaskContents } from './view.ts'

/** Tasks of the threads that check untrusted tasks. */
const tasks = { applyToContents }
export type CheckTasks = typeof tasks

serveTasks(tasks)

/** Applies the rules. Buffers arrive from the main thread as plain arrays of bytes. */
function applyToContents({ contents, buildHosts }: SafetyCheckOptions & { contents: TaskContents }): SafetyCheck {
  const scanned = contents.scanned.map((file) => ({ ...file, bytes: Buffer.from(file.bytes) }))
  return applyRules({ ...contents, scanned }, buildHosts)
}

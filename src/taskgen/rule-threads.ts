import { openThreads, TaskFailed } from '../platform/threads.ts'
import type { RuleTasks } from './rule-tasks.ts'
import { done, rejectForTiming, type StageResult } from './stage-result.ts'

const SCRIPT = new URL('./rule-tasks.ts', import.meta.url)
const threads = openThreads<RuleTasks>(SCRIPT, { timeoutMs: 30_000, memoryMb: 1024, threadsMin: 2 })

/**
 * Applies rules to files of an untrusted repository in a thread, so that files written to be slow delay nothing else.
 * Rejects a candidate whose files take too much time or memory. Slow files of one workspace leave a thread to the others.
 */
export async function applyRules<Name extends keyof RuleTasks>(
  name: Name,
  input: Parameters<RuleTasks[Name]>[0],
  workspaceId?: string,
): Promise<StageResult<Awaited<ReturnType<RuleTasks[Name]>>>> {
  try {
    return done(await threads.run(name, input, { group: workspaceId }))
  } catch (error) {
    if (!(error instanceof TaskFailed)) throw error
    return rejectForTiming('too_large', `The files could not be examined: ${error.message}`)
  }
}

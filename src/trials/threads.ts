import { openThreads } from '../platform/threads.ts'
import type { TrialThreadTasks } from './thread-tasks.ts'

const SCRIPT = new URL('./thread-tasks.ts', import.meta.url)

/** Threads for agents' texts, whose size is limited. */
export const textThreads = openThreads<TrialThreadTasks>(SCRIPT, { timeoutMs: 30_000, memoryMb: 512 })

/**
 * Threads for archives of agents' files. Separate from the texts, because an archive may have gigabytes. The group of a
 * task is its workspace, which always leaves a thread to the others.
 */
export const archiveThreads = openThreads<TrialThreadTasks>(SCRIPT, {
  timeoutMs: 600_000,
  memoryMb: 512,
  threadsMin: 2,
})

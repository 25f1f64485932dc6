import { openThreads } from '../platform/threads/threads.ts'
import type { TrialTasks } from './thread-tasks.ts'

const SCRIPT = new URL('./thread-tasks.ts', import.meta.url)

/** For texts that agents wrote, of a limited size. */
export const textThreads = openThreads<TrialTasks>(SCRIPT, { timeoutMs: 30_000, memoryMb: 512 })

/** For archives of files that agents left. Apart from the texts, because one may have gigabytes. */
export const archiveThreads = openThreads<TrialTasks>(SCRIPT, { timeoutMs: 600_000, memoryMb: 512 })

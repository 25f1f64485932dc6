import { serveTasks } from '../../platform/threads/serve-tasks.ts'
import { computeEncoded } from './decode-results.ts'

/** Script of the threads that compute the statistics of large comparisons. */
const tasks = { computeEncoded }
export type StatisticsTasks = typeof tasks

serveTasks(tasks)

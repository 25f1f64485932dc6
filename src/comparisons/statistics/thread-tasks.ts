import { serveTasks } from '../../platform/threads.ts'
import { computeGridStatistics } from './trial-grid.ts'

/** Script of the threads that compute the statistics of large comparisons. */
const tasks = { computeGridStatistics }
export type StatisticsTasks = typeof tasks

serveTasks(tasks)

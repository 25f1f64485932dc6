import { serveTasks } from '../../platform/threads.ts'
import { lookUpInList } from './registry-list.ts'

/** Tasks of the threads that read lists of datasets. */
const tasks = { lookUpInList }
export type ListTasks = typeof tasks

serveTasks(tasks)

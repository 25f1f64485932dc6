import { serveTasks } from '../platform/threads/serve-tasks.ts'
import { inspectBody, limitBody, meterBody } from './inspect-body.ts'

/** The script of the threads that read large bodies. */
const tasks = { inspectBody, limitBody, meterBody }
export type BodyTasks = typeof tasks

serveTasks(tasks)

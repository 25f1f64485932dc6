import { serveTasks } from '../platform/threads/serve-tasks.ts'
import { inspectBody, limitBody, meterBody } from './inspect-body.ts'

/** Script of the threads that parse large bodies. */
const tasks = { inspectBody, limitBody, meterBody }
export type BodyTasks = typeof tasks

serveTasks(tasks)

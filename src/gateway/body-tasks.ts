import { serveTasks } from '../platform/threads/serve-tasks.ts'
import { editBody, inspectBody, limitBody, meterBody } from './inspect-body.ts'

/** Script of the threads that parse large bodies. */
const tasks = { editBody, inspectBody, limitBody, meterBody }
export type BodyTasks = typeof tasks

serveTasks(tasks)

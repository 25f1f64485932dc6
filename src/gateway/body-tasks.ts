import { serveTasks } from '../platform/threads.ts'
import { editBody, inspectBody, limitBody, meterBody } from './inspect-body.ts'

/** The functions that threads run on large bodies. This file is the script of these threads. */
const tasks = { editBody, inspectBody, limitBody, meterBody }
export type BodyTasks = typeof tasks

serveTasks(tasks)

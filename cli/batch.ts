import type { Command } from 'commander'
import type { BatchTask } from '../src/batches/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { WrongUse } from './failure.ts'
import { openRepository } from './repository.ts'
import type { Service } from './service.ts'
import type { Shell } from './shell.ts'

export type BatchParams = { org: string; owner: string; name: string; runId: string }

export const loadContract = () => import('../src/batches/schema.ts')

const BATCH_ID = /^batch-[0-9a-f-]{36}$/

/** Opens the service and checks the batch id. */
export async function openBatch(shell: Shell, command: Command, repo: string, runId: string) {
  if (!BATCH_ID.test(runId)) throw new WrongUse('Not a batch id. Batch ids start with batch-.')
  const { service, params } = await openRepository(shell, command, repo)
  return { service, params: { ...params, runId } }
}

export async function listTasks(service: Service, params: BatchParams): Promise<BatchTask[]> {
  return (await call(service, (await loadContract()).listBatchTasks, { params })).body.tasks
}

/** Returns the tasks with these ids. Throws if the batch does not have one of them. */
export function requireTasks(tasks: readonly BatchTask[], ids: readonly string[]): BatchTask[] {
  return ids.map((id) => {
    const task = tasks.find(({ taskId }) => taskId === id)
    if (!task) throw new WrongUse(`The batch has no task ${id}.`)
    return task
  })
}

import type { Command } from 'commander'
import type { BatchTask } from '../src/batches/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { WrongUse } from './failure.ts'
import { openRepository } from './repository.ts'
import type { Service } from './service.ts'
import type { Shell } from './shell.ts'

export type InBatch = { org: string; owner: string; name: string; runId: string }

export const contract = () => import('../src/batches/schema.ts')

const RUN = /^batch-[0-9a-f-]{36}$/

/** The service, and a batch in it. */
export async function openBatch(shell: Shell, command: Command, repo: string, runId: string) {
  if (!RUN.test(runId)) throw new WrongUse('That is not a batch: batch- and an id are expected.')
  const { service, params } = await openRepository(shell, command, repo)
  return { service, params: { ...params, runId } }
}

export async function listTasks(service: Service, params: InBatch): Promise<BatchTask[]> {
  return (await call(service, (await contract()).listBatchTasks, { params })).body.tasks
}

export function requireTasks(all: readonly BatchTask[], ids: readonly string[]): BatchTask[] {
  return ids.map((id) => {
    const found = all.find(({ taskId }) => taskId === id)
    if (!found) throw new WrongUse(`There is no task ${id} in this batch.`)
    return found
  })
}

export function numberOf(text: string, flag: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new WrongUse(`${flag} takes a number.`)
  return value
}

import type { BatchTask } from '../src/batches/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { WrongUse } from './failure.ts'
import { repositoryName } from './repository-name.ts'
import type { Service } from './service.ts'

export const REPO = ['--repo <repository>', 'owner/name'] as const

export type RepoFlag = { repo: string }
export type InBatch = { org: string; owner: string; name: string; runId: string }

export const contract = () => import('../src/batches/schema.ts')

export const inRepository = ({ org }: Service, repo: string) => ({ org, ...repositoryName(repo) })

const RUN = /^batch-[0-9a-f-]{36}$/

export function requireRun(runId: string): string {
  if (RUN.test(runId)) return runId
  throw new WrongUse('That is not a batch: batch- and an id are expected.')
}

export const inBatch = (service: Service, repo: string, runId: string): InBatch => ({
  ...inRepository(service, repo),
  runId: requireRun(runId),
})

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

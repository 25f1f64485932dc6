import { z } from 'zod'
import type { BatchRun } from '../../src/batches/schema.ts'
import { call } from '../../src/platform/http/client.ts'
import { readArchive } from '../archive.ts'
import { type BatchParams, loadContract } from '../batch.ts'
import { buildGeneration, type CreateBatchFlags, formatPreview, readOptions } from '../batches-create.ts'
import { formatBatch, waitForBatch } from '../batches-watch.ts'
import { WrongUse } from '../failure.ts'
import { parseRepositoryName } from '../repository.ts'
import { candidateCounts, repositoryName } from './repository-tools.ts'
import { abortAfter, defineTool, type McpTool, type ToolContext, type ToolOutput, waitSeconds } from './tool.ts'

export const batchId = z
  .string()
  .regex(/^batch-[0-9a-f-]{36}$/)
  .optional()
  .describe('Batch id: batch-… (default: the newest of the repository)')

export const confirm = z
  .boolean()
  .default(false)
  .describe('Set to true after the user has agreed. Otherwise nothing is started')

export const batchTools: McpTool[] = [
  defineTool({
    name: 'create_batch',
    title: 'Create tasks from pull requests',
    description:
      'Create tasks from merged pull requests with models. Without confirm it returns the forecast and starts nothing; with confirm: true it starts and spends money.',
    effect: 'spends',
    input: z.object({
      repository: repositoryName,
      ...candidateCounts,
      author: z.string().max(200).optional().describe('Model that writes instructions'),
      verifier: z.string().max(200).optional().describe('Model that reviews tasks'),
      budgetUsd: z.number().min(0).max(1_000_000).optional().describe('Stop calling models after spending this much'),
      confirm,
    }),
    run: async ({ openService }, { repository, budgetUsd, author, verifier, confirm: isConfirmed, ...counts }) => {
      if (counts.easy + counts.medium + counts.hard === 0)
        throw new WrongUse('Give the number of candidates: easy, medium or hard.')
      const service = await openService()
      const params = { org: service.org, ...parseRepositoryName(repository) }
      const flags: CreateBatchFlags = { repo: repository }
      if (author !== undefined) flags.author = author
      if (verifier !== undefined) flags.verifier = verifier
      const generation = buildGeneration(await readOptions({ service, params }), flags)
      const { createBatch, previewBatch } = await loadContract()
      if (!isConfirmed) {
        const { body } = await call(service, previewBatch, { params, body: { candidateCounts: counts } })
        return {
          message: 'Nothing was started. Repeat with confirm: true to create these tasks.',
          lines: formatPreview(body),
          data: { started: false, cost: body.cost, generation },
        }
      }
      const { body } = await call(service, createBatch, {
        params,
        body: { candidateCounts: counts, generation, budgetUsd },
      })
      return describeBatch(body.run, `${body.runId} has started. Next: wait_for_batch.`)
    },
  }),
  defineTool({
    name: 'import_tasks',
    title: 'Import hand-written tasks',
    description:
      'Import tasks in Harbor format from a folder or a .tar.gz of this machine. Each is checked and validated in sandboxes.',
    effect: 'changes',
    readsFiles: true,
    input: z.object({
      repository: repositoryName,
      path: z.string().max(4096).describe('A folder of tasks, a task folder, or a .tar.gz with one folder per task'),
    }),
    run: async ({ openService }, { repository, path }) => {
      const params = parseRepositoryName(repository)
      const upload = await readArchive(path, { omitsFolder: false })
      const service = await openService()
      const { importBatch } = await loadContract()
      const { body } = await call(service, importBatch, { params: { org: service.org, ...params }, upload })
      return describeBatch(body.run, `${body.runId} checks the tasks. Next: wait_for_batch.`)
    },
  }),
  defineTool({
    name: 'wait_for_batch',
    title: 'Wait for a batch',
    description:
      'Wait until a batch has ended, or until the given seconds have passed. Repeat it while the batch runs.',
    effect: 'reads',
    input: z.object({ repository: repositoryName, batch: batchId, seconds: waitSeconds }),
    run: async (context, { repository, batch, seconds }) => {
      const { service, params } = await openBatch(context, repository, batch)
      const ended = await waitForBatch(service, params, abortAfter(seconds, context.signal), (run) =>
        context.progress(formatBatch(run)[0] ?? run.state),
      )
      const run = ended ?? (await call(service, (await loadContract()).readBatch, { params })).body
      return describeBatch(
        run,
        ended ? `The batch is ${run.state}. Next: list_tasks.` : 'The batch still runs. Wait again.',
      )
    },
  }),
  defineTool({
    name: 'cancel_batch',
    title: 'Cancel a batch',
    description: 'Cancel what has not ended. Tasks that are ready stay.',
    effect: 'changes',
    input: z.object({ repository: repositoryName, batch: batchId }),
    run: async (context, { repository, batch }) => {
      const { service, params } = await openBatch(context, repository, batch)
      const { body } = await call(service, (await loadContract()).cancelBatch, { params })
      return describeBatch(body, `The batch is ${body.state}.`)
    },
  }),
]

/** Opens a batch, by default the newest of the repository. */
export async function openBatch({ openService }: ToolContext, repository: string, batch: string | undefined) {
  const ref = parseRepositoryName(repository)
  const service = await openService()
  const params = { org: service.org, ...ref }
  const runId = batch ?? (await findNewestBatch(service, params))
  if (runId === undefined)
    throw new WrongUse(`${repository} has no batch. Create one with create_batch or import_tasks.`)
  return { service, params: { ...params, runId } satisfies BatchParams }
}

async function findNewestBatch(service: Parameters<typeof call>[0], params: Omit<BatchParams, 'runId'>) {
  const { body } = await call(service, (await loadContract()).listBatches, { params, query: { limit: 1 } })
  return body.batches[0]?.runId
}

function describeBatch(run: BatchRun, message: string): ToolOutput {
  const { runId, state, counts, rejections, costUsd, error, waiting } = run
  const reason = error?.message ?? waiting?.detail
  return {
    message,
    // The detail of a wait is untrusted, so it is not among the lines.
    lines: [...formatBatch({ ...run, waiting: undefined }), ...run.warnings],
    data: { batch: runId, state, counts, rejections, costUsd },
    untrusted: reason === undefined ? undefined : { reason },
  }
}

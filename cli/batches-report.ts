import type { Command } from 'commander'
import { call } from '../src/platform/http/client.ts'
import { contract, listTasks, openBatch } from './batch.ts'
import { type BatchReport, buildBatchReport } from './batch-report.ts'
import { withExample } from './help.ts'
import { REPO, type RepoFlag } from './repository.ts'
import { print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

export function addReportCommand(batches: Command, shell: Shell): void {
  withExample(
    batches
      .command('report')
      .description('Report how tasks left each stage, CPU time, model cost, and what would raise the yield')
      .argument('<run>', 'Batch id: batch-…')
      .requiredOption(...REPO)
      .action((run: string, flags: RepoFlag, command: Command) => printBatchReport(shell, command, flags, run)),
    'assay batches report batch-0190… --repo lab/demo',
  )
}

async function printBatchReport(shell: Shell, command: Command, { repo }: RepoFlag, run: string): Promise<void> {
  const { service, params } = await openBatch(shell, command, repo, run)
  const { readBatchTask } = await contract()
  const details = []
  for (const { taskId } of await listTasks(service, params))
    details.push((await call(service, readBatchTask, { params: { ...params, taskId } })).body)
  const batchReport = buildBatchReport(details)
  if (service.json) return printJson(shell, batchReport)
  printReport(shell, batchReport)
}

function printReport(shell: Shell, { tasks, ready, deferred, costUsd, stages, rejections }: BatchReport): void {
  print(
    shell,
    `${ready} of ${tasks} candidates are ready, ${deferred} deferred; models cost $${costUsd.toFixed(2)}`,
    '',
  )
  printTable(shell, stages, [
    ['stage', ({ stage }) => stage],
    ['entered', ({ entered }) => String(entered)],
    ['passed', ({ passed }) => String(passed)],
    ['rejected', ({ rejected }) => String(rejected)],
    ['seconds', ({ seconds }) => seconds.toFixed(0)],
    ['CPU seconds', ({ cpuSeconds }) => cpuSeconds.toFixed(0)],
    ['model cost', (stage) => `$${stage.costUsd.toFixed(2)}`],
  ])
  if (rejections.length === 0) return
  print(shell, '')
  printTable(shell, rejections, [
    ['reason', ({ reason }) => reason],
    ['stage', ({ stage }) => stage],
    ['count', ({ count }) => String(count)],
    ['what would help', ({ advice }) => advice ?? '-'],
  ])
}

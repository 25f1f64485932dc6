import { z } from 'zod'
import type { BatchTask } from '../../src/batches/schema.ts'
import { listTasks, requireTasks } from '../batch.ts'
import { formatTaskState, sendDecisions } from '../batches.ts'
import { buildPage, readTask } from '../batches-review.ts'
import { WrongUse } from '../failure.ts'
import { alignColumns, formatCount } from '../table.ts'
import { batchId, openBatch } from './batch-tools.ts'
import { repositoryName } from './repository-tools.ts'
import { defineTool, type McpTool } from './tool.ts'

const TASKS_MAX = 100

export const taskTools: McpTool[] = [
  defineTool({
    name: 'list_tasks',
    title: 'List the tasks of a batch',
    description: 'List the tasks of a batch with state, difficulty, number of warnings and decision.',
    effect: 'reads',
    input: z.object({ repository: repositoryName, batch: batchId }),
    run: async (context, { repository, batch }) => {
      const { service, params } = await openBatch(context, repository, batch)
      const all = await listTasks(service, params)
      const shown = all.slice(0, TASKS_MAX)
      const rest = all.length - shown.length
      return {
        message: `${params.runId} has ${formatCount(all.length, 'task')}. Next: read_task, then decide_tasks.`,
        lines: [
          ...alignColumns([['TASK', 'STATE', 'DIFFICULTY', 'WARNINGS', 'DECISION'], ...shown.map(toCells)]),
          ...(rest > 0 ? [`… ${rest} more`] : []),
        ],
        data: { batch: params.runId, tasks: shown.map(toSummary) },
        untrusted: {
          tasks: Object.fromEntries(
            shown.map(({ taskId, title, concerns }) => [taskId, { title, warnings: concerns }]),
          ),
        },
      }
    },
  }),
  defineTool({
    name: 'read_task',
    title: 'Review a task',
    description:
      'Read a task before a decision: instruction, warnings, solution, tests and the evidence that it works.',
    effect: 'reads',
    input: z.object({ repository: repositoryName, batch: batchId, task: z.string().max(100).describe('Task id') }),
    run: async (context, { repository, batch, task }) => {
      const { service, params } = await openBatch(context, repository, batch)
      const detail = await readTask(service, params, task)
      const page = await buildPage(context.shell, service, params, detail)
      return {
        message: `Task ${detail.taskId} is ${formatTaskState(detail)}. Decision: ${detail.decision ?? 'none'}. Next: decide_tasks.`,
        data: { batch: params.runId, ...toSummary(detail) },
        untrusted: { task: page.join('\n') },
      }
    },
  }),
  defineTool({
    name: 'decide_tasks',
    title: 'Approve or decline tasks',
    description:
      'Approve or decline tasks in their current version. Without tasks it decides on all that are ready and, for an approval, have no warnings; a task with warnings must be named alone. Only approved tasks are compared.',
    effect: 'changes',
    input: z.object({
      repository: repositoryName,
      batch: batchId,
      decision: z.enum(['approved', 'declined']),
      tasks: z.array(z.string().max(100)).max(300).optional().describe('Task ids'),
      note: z.string().max(1000).optional().describe('Reason for the decision'),
    }),
    run: async (context, { repository, batch, decision, tasks, note }) => {
      const { service, params } = await openBatch(context, repository, batch)
      const all = await listTasks(service, params)
      const chosen = tasks === undefined ? selectReady(all, decision) : requireTasks(all, tasks)
      const reason = note === undefined ? {} : { note }
      const decisions = chosen.map(({ taskId, digest }) => ({ taskId, digest: digest ?? '', decision, ...reason }))
      const decided = await sendDecisions(service, params, decisions)
      const skipped = tasks === undefined ? all.filter((each) => each.state === 'ready' && !chosen.includes(each)) : []
      return {
        message: `${formatCount(decided.length, 'task')} ${decision}: ${decided.map(({ taskId }) => taskId).join(', ')}.`,
        lines: [
          ...(skipped.length > 0
            ? [`With warnings and not decided: ${skipped.map(({ taskId }) => taskId).join(', ')}.`]
            : []),
        ],
        data: { batch: params.runId, tasks: decided.map(toSummary), skipped: skipped.map(({ taskId }) => taskId) },
      }
    },
  }),
]

const toCells = (task: BatchTask): string[] => [
  task.taskId,
  formatTaskState(task),
  task.difficulty ?? task.requestedDifficulty ?? '-',
  String(task.concerns.length),
  task.decision ?? '-',
]

const toSummary = (task: BatchTask) => ({
  task: task.taskId,
  state: task.state,
  difficulty: task.difficulty,
  warnings: task.concerns.length,
  decision: task.decision,
  rejection: task.rejection?.reason,
})

function selectReady(all: readonly BatchTask[], decision: 'approved' | 'declined'): BatchTask[] {
  const ready = all.filter(({ state }) => state === 'ready')
  const chosen = decision === 'approved' ? ready.filter(({ concerns }) => concerns.length === 0) : ready
  if (chosen.length > 0) return chosen
  throw new WrongUse(
    ready.length > 0
      ? 'Every task that is ready has warnings. Read them with read_task and name one at a time.'
      : 'No task of this batch is ready. See list_tasks.',
  )
}

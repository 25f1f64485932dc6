import { openAsBlob } from 'node:fs'
import { stat } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import { buffer } from 'node:stream/consumers'
import type { Command } from 'commander'
import type { BatchTask } from '../src/batches/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { repositoryName } from './repository-name.ts'
import { openService, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { printTable } from './table.ts'

const REPO = ['--repo <repository>', 'owner/name'] as const

type RepoFlag = { repo: string }
type DecideFlags = RepoFlag & { all?: boolean; note?: string }

export function addBatchesCommands(assay: Command, shell: Shell): void {
  const batches = assay.command('batches').description('Tasks of a repository').helpCommand(false)
  withExample(
    batches
      .command('import')
      .description('Import tasks that were written by hand; each is checked and tried in sandboxes')
      .argument('<source>', 'a .tar.gz with a folder for each task, or such a folder, or the folder of one task')
      .requiredOption(...REPO)
      .action((source: string, flags: RepoFlag, command: Command) => importTasks(shell, command, flags, source)),
    'assay batches import tasks.tar.gz --repo lab/demo',
  )
  withExample(
    batches
      .command('tasks')
      .description('List the tasks of a batch, with what became of them')
      .argument('<run>', 'batch-…')
      .requiredOption(...REPO)
      .action((run: string, flags: RepoFlag, command: Command) => tasks(shell, command, flags, run)),
    'assay batches tasks batch-0190… --repo lab/demo',
  )
  for (const [verb, decision] of DECISIONS) {
    withExample(
      batches
        .command(verb)
        .description(`${verb === 'approve' ? 'Approve' : 'Decline'} tasks as they are now; the last decision counts`)
        .argument('<run>', 'batch-…')
        .argument('[tasks...]', 'their ids')
        .requiredOption(...REPO)
        .option('--all', 'every task that is ready')
        .option('--note <text>', 'why')
        .action((run: string, ids: string[], flags: DecideFlags, command: Command) =>
          decide(shell, command, flags, { run, ids, decision }),
        ),
      `assay batches ${verb} batch-0190… hello --repo lab/demo`,
    )
  }
}

const DECISIONS = [
  ['approve', 'approved'],
  ['decline', 'declined'],
] as const

const contract = () => import('../src/batches/schema.ts')

async function importTasks(shell: Shell, command: Command, { repo }: RepoFlag, source: string): Promise<void> {
  const place = repositoryName(repo)
  const upload = await archiveOf(source)
  const service = await openService(shell, command)
  const params = { org: service.org, ...place }
  const { body } = await call(service, (await contract()).importBatch, { params, upload })
  if (service.json) return printJson(shell, body)
  note(shell, `The tasks are being checked: assay batches tasks ${body.runId} --repo ${repo}`)
  print(shell, body.runId)
}

/** A folder is packed as it lies there, without the history of its repository. */
async function archiveOf(source: string): Promise<Blob> {
  const path = resolve(source)
  const found = await stat(path).catch(() => undefined)
  if (!found) throw new WrongUse(`There is no ${source}.`)
  if (found.isFile()) return openAsBlob(path)
  const { create } = await import('tar')
  const filter = (entry: string) => !entry.split('/').includes('.git')
  const packed = create({ gzip: true, cwd: dirname(path), portable: true, filter }, [basename(path)])
  return new Blob([new Uint8Array(await buffer(packed))])
}

type InBatch = { org: string; owner: string; name: string; runId: string }

const RUN = /^batch-[0-9a-f-]{36}$/

function inBatch({ org }: Service, repo: string, runId: string): InBatch {
  if (!RUN.test(runId)) throw new WrongUse('That is not a batch: batch- and an id are expected.')
  return { org, ...repositoryName(repo), runId }
}

async function listTasks(service: Service, params: InBatch): Promise<BatchTask[]> {
  return (await call(service, (await contract()).listBatchTasks, { params })).body.tasks
}

async function tasks(shell: Shell, command: Command, { repo }: RepoFlag, run: string): Promise<void> {
  const service = await openService(shell, command)
  const params = inBatch(service, repo, run)
  const { body } = await call(service, (await contract()).readBatch, { params })
  const all = await listTasks(service, params)
  if (service.json) return printJson(shell, { tasks: all })
  note(shell, `${run} is ${body.state}.${body.error ? ` ${body.error.message}` : ''}`)
  printTable<BatchTask>(shell, all, [
    ['TASK', ({ taskId }) => taskId],
    ['STATE', ({ state, rejection }) => (rejection ? `${state}: ${rejection.reason}` : state)],
    ['DIFFICULTY', ({ difficulty }) => difficulty ?? '-'],
    ['DECISION', ({ decision }) => decision ?? '-'],
    ['TITLE', ({ title }) => title],
  ])
}

type Wish = { run: string; ids: string[]; decision: 'approved' | 'declined' }

async function decide(shell: Shell, command: Command, flags: DecideFlags, { run, ids, decision }: Wish): Promise<void> {
  if ((ids.length === 0) !== (flags.all === true)) throw new WrongUse('Name the tasks, or give --all.')
  const service = await openService(shell, command)
  const params = inBatch(service, flags.repo, run)
  const chosen = chosenOf(await listTasks(service, params), ids)
  const decisions = chosen.map(({ taskId, digest }) => ({
    ...{ taskId, digest: digest ?? '', decision },
    ...(flags.note === undefined ? {} : { note: flags.note }),
  }))
  const { body } = await call(service, (await contract()).decideTasks, { params, body: { decisions } })
  if (service.json) return printJson(shell, body)
  for (const { taskId } of body.tasks) note(shell, `${taskId} is ${decision}.`)
}

/** Without names: all that are ready. */
function chosenOf(all: BatchTask[], ids: string[]): BatchTask[] {
  const unknown = ids.find((id) => !all.some(({ taskId }) => taskId === id))
  if (unknown !== undefined) throw new WrongUse(`There is no task ${unknown} in this batch.`)
  const chosen = all.filter(({ taskId, state }) => (ids.length === 0 ? state === 'ready' : ids.includes(taskId)))
  if (chosen.length === 0) throw new WrongUse('No task of this batch is ready.')
  return chosen
}

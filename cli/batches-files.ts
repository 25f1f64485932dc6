import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { text as readText } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import type { BatchTask } from '../src/batches/schema.ts'
import { call, download } from '../src/platform/http/client.ts'
import { type BatchParams, listTasks, loadContract, openBatch, requireTasks } from './batch.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { requireFileName } from './paths.ts'
import { REPO, type RepoFlag } from './repository.ts'
import type { Service } from './service.ts'
import { note, printJson, type Shell } from './shell.ts'

type EditFlags = RepoFlag & { file: string; from?: string }
type ExportFlags = RepoFlag & { to: string; ready?: boolean; evidence?: boolean }

export function addFileCommands(batches: Command, shell: Shell): void {
  withExample(
    batches
      .command('edit')
      .description('Edit a file of a task, in your editor or from another file; the task is validated again')
      .argument('<run>', 'Batch id: batch-…')
      .argument('<task>', 'Task id')
      .requiredOption(...REPO)
      .option('--file <path>', 'File to edit; in a generated task only this one', 'instruction.md')
      .option('--from <path>', 'Read the new content from this file instead of an editor; - is standard input')
      .action((run: string, task: string, flags: EditFlags, command: Command) =>
        edit(shell, command, flags, { run, task }),
      ),
    'assay batches edit batch-0190… hello --repo lab/demo',
    'assay batches edit batch-0190… hello --repo lab/demo --from instruction.md',
  )
  withExample(
    batches
      .command('export')
      .description("Export tasks as folders in Harbor's format: the given ones, otherwise all approved")
      .argument('<run>', 'Batch id: batch-…')
      .argument('[tasks...]', 'Task ids')
      .requiredOption(...REPO)
      .requiredOption('--to <folder>', 'Target folder; one new folder per task')
      .option('--ready', 'Export every task that is ready, approved or not')
      .option('--evidence', 'Also write a file with the origin and the evidence of each task, beside its folder')
      .action((run: string, ids: string[], flags: ExportFlags, command: Command) =>
        exportTasks(shell, command, flags, { run, ids }),
      ),
    'assay batches export batch-0190… --repo lab/demo --to tasks',
    'assay batches export batch-0190… --repo lab/demo --to tasks --evidence',
  )
}

async function edit(
  shell: Shell,
  command: Command,
  flags: EditFlags,
  { run, task }: { run: string; task: string },
): Promise<void> {
  const { service, params: batch } = await openBatch(shell, command, flags.repo, run)
  const params = { ...batch, taskId: task, path: flags.file }
  const { readBatchTaskFile, putBatchTaskFile } = await loadContract()
  const { bytes, etag } = await download(service, readBatchTaskFile, { params })
  const currentText = new TextDecoder().decode(bytes)
  const content = await readNewText(shell, flags, currentText)
  if (content === currentText) return note(shell, 'No changes.')
  const { body } = await call(service, putBatchTaskFile, { params, body: { content }, ifMatch: etag ?? '*' })
  if (service.json) return printJson(shell, body)
  note(shell, `${task} is ${body.state} again: assay batches watch ${run} --repo ${flags.repo}`)
}

async function readNewText(shell: Shell, { from, file }: EditFlags, currentText: string): Promise<string> {
  if (from === '-') return readText(shell.input())
  if (from === undefined) return editText(shell, basename(file), currentText)
  return readFile(resolve(from), 'utf8').catch((error: Error) => {
    throw new WrongUse(`${from} cannot be read: ${error.message}`)
  })
}

/** Opens the text in the editor that VISUAL or EDITOR names, and returns the edited text. */
async function editText(shell: Shell, name: string, currentText: string): Promise<string> {
  const editor = shell.env.VISUAL || shell.env.EDITOR
  if (!editor || !shell.input().isTTY) throw new WrongUse('No editor available. Set EDITOR or use --from.')
  const folder = await mkdtemp(join(tmpdir(), 'assay-edit-'))
  try {
    const path = join(folder, name)
    await writeFile(path, currentText)
    const child = spawn('sh', ['-c', `${editor} "$1"`, 'sh', path], { stdio: 'inherit' })
    const [code] = await once(child, 'exit')
    if (code !== 0) throw new Error(`The editor exited with code ${code}. No changes were made.`)
    return await readFile(path, 'utf8')
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function exportTasks(
  shell: Shell,
  command: Command,
  flags: ExportFlags,
  { run, ids }: { run: string; ids: string[] },
): Promise<void> {
  const { service, params } = await openBatch(shell, command, flags.repo, run)
  const tasks = await listTasks(service, params)
  const chosenTasks =
    ids.length > 0 ? requireTasks(tasks, ids) : tasks.filter((task) => isExported(task, flags.ready === true))
  if (chosenTasks.length === 0)
    throw new WrongUse('No task of this batch is approved. Use --ready to export all tasks that are ready.')
  for (const { taskId } of chosenTasks) requireFileName(taskId)
  const folders: string[] = []
  for (const { taskId } of chosenTasks)
    folders.push(await exportTask(service, params, taskId, resolve(flags.to, taskId)))
  if (flags.evidence) await exportEvidence(service, params, chosenTasks, flags.to)
  if (service.json) return printJson(shell, { folders })
  note(shell, `${folders.length} tasks in ${flags.to}: ${chosenTasks.map(({ taskId }) => taskId).join(', ')}`)
}

const isExported = ({ state, decision }: BatchTask, includesReady: boolean): boolean =>
  decision === 'approved' || (includesReady && state === 'ready')

/** Writes the evidence beside the task folder, because the agent must not see where the task comes from. */
async function exportEvidence(service: Service, params: BatchParams, tasks: readonly BatchTask[], to: string) {
  const { readBatch, readBatchTask } = await loadContract()
  const { runId, createdAt, generation } = (await call(service, readBatch, { params })).body
  for (const { taskId } of tasks) {
    const { body: task } = await call(service, readBatchTask, { params: { ...params, taskId } })
    const provenance = { batch: { runId, createdAt, generation }, task }
    await writeFile(resolve(to, `${taskId}.json`), `${JSON.stringify(provenance, null, 2)}\n`, { flag: 'wx' })
  }
}

async function exportTask(service: Service, params: BatchParams, taskId: string, folder: string): Promise<string> {
  if (await stat(folder).catch(() => undefined)) throw new WrongUse(`${folder} already exists.`)
  const { readBatchTaskArchive } = await loadContract()
  const { bytes } = await download(service, readBatchTaskArchive, { params: { ...params, taskId } })
  const { extract } = await import('tar')
  await mkdir(folder, { recursive: true })
  // The archive comes from a service that may be hostile: no owners, and no programs that run with their owner's rights.
  const onReadEntry = (entry: { mode?: number | undefined }) => {
    if (entry.mode !== undefined) entry.mode &= 0o777
  }
  await pipeline(Readable.from([bytes]), extract({ cwd: folder, strict: true, preserveOwner: false, onReadEntry }))
  return folder
}

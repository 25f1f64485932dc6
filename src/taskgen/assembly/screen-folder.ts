import { CONFIG_FILE } from '../../harbor/config.ts'
import { openFolderSource } from '../../harbor/folder-source.ts'
import { type ReadTask, readTask } from '../../harbor/read-task.ts'
import { checkTask } from '../../harbor/safety/check-task.ts'
import type { SafetyFinding } from '../../harbor/safety/rule.ts'
import { type Task, type TaskFile, TaskInvalid } from '../../harbor/task.ts'
import { hashFiles } from '../../harbor/task-files.ts'
import type { Digest } from '../../platform/blobs/blob.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { serveTasks } from '../../platform/threads.ts'
import { Difficulty, type Rejection, type TaskContent, type TaskEvidence } from '../schema.ts'

/** A screened task, with the values that its row stores. */
export type NewTask = {
  id: string
  title: string
  difficulty: Difficulty | null
  /** Null if the task is rejected. */
  digest: Digest | null
  rejection: Rejection | null
  content: TaskContent | null
  evidence: TaskEvidence
}

/** Result for one folder. `name` is the name that the task declares, or that of its folder. */
export type FolderScreening = { name: string; task: NewTask }

type ScreenFolderInput = { folder: string; id: string; buildHosts: readonly AllowedHost[] | undefined }

/** Functions that the screening threads offer. */
const tasks = { screenFolder }
export type ScreenTasks = typeof tasks

serveTasks(tasks)

/**
 * Reads and checks one task without executing any of its files. Runs in a thread, because thousands of files or large
 * scripts take seconds.
 */
async function screenFolder({ folder, id, buildHosts }: ScreenFolderInput): Promise<FolderScreening> {
  const source = await openFolderSource(folder)
  const { findings } = await checkTask(source, { buildHosts })
  const publicFindings = findings.map(({ rule, severity, path, detail }) => ({ rule, severity, path, detail }))
  const evidence: TaskEvidence = { findings: publicFindings, calibration: null }
  const blocking = findings.filter(({ severity }) => severity === 'block')
  if (blocking.length > 0) return rejectTask(id, evidence, toRejection(blocking))
  const read = await readTask(source).catch(toInvalidDetail)
  if ('detail' in read) return rejectTask(id, evidence, { reason: 'invalid_task', detail: read.detail })
  const toml = await hashFiles(source, (await source.list([CONFIG_FILE])).files)
  return toScreening(id, evidence, { ...read, files: [...read.task.files, ...toml] })
}

const rejectTask = (id: string, evidence: TaskEvidence, rejection: Rejection): FolderScreening => ({
  task: { id, title: id, difficulty: null, digest: null, rejection, content: null, evidence },
  name: id,
})

const UNREADABLE_RULES = ['schema', 'required_files']

/** Returns `invalid_task` if every finding says that the task cannot be read, and `unsafe_task` otherwise. */
function toRejection(blocking: SafetyFinding[]): Rejection {
  const [first] = blocking
  const isUnreadable = blocking.every(({ rule }) => UNREADABLE_RULES.includes(rule))
  const more = blocking.length > 1 ? ` (and ${blocking.length - 1} more)` : ''
  return {
    reason: isUnreadable ? 'invalid_task' : 'unsafe_task',
    detail: `${first?.path}: ${first?.detail}${more}`,
  }
}

function toInvalidDetail(error: unknown): { detail: string } {
  if (error instanceof TaskInvalid) return { detail: error.message }
  throw error
}

type ReadableTask = Pick<ReadTask, 'task' | 'digest'> & { files: TaskFile[] }

function toScreening(id: string, evidence: TaskEvidence, { task, digest, files }: ReadableTask): FolderScreening {
  files.sort((a, b) => (a.path < b.path ? -1 : 1))
  return {
    name: task.name,
    task: {
      id,
      title: readTitle(task),
      difficulty: readDifficulty(task),
      digest,
      rejection: null,
      evidence,
      content: { instruction: task.steps.map(({ instruction }) => instruction).join('\n\n'), files },
    },
  }
}

const TITLE_LENGTH_MAX = 200

const readTitle = ({ package: info, name }: Task): string =>
  (info?.description.trim().split('\n', 1)[0] || name).slice(0, TITLE_LENGTH_MAX)

const readDifficulty = ({ metadata }: Task) => Difficulty.safeParse(metadata.difficulty).data ?? null

import { type ReadTask, readTask } from '../../../src/harbor/read-task.ts'
import { createMemorySource } from '../../../src/harbor/source.ts'
import { type TaskFinding, TaskInvalid } from '../../../src/harbor/task.ts'
import type { TaskFileOptions } from '../../../src/harbor/task-files.ts'
import type { FileContents } from './folders.ts'

/** Files of a minimal task. */
export const SMALL_TASK: FileContents = {
  'task.toml': 'schema_version = "1.4"\n',
  'instruction.md': 'Do it.\n',
  'environment/Dockerfile': 'FROM debian:bookworm-slim\n',
  'tests/test.sh': 'echo 1 > /logs/verifier/reward.txt\n',
}

/** Reads the minimal task with additional or replaced files. */
export const readSmallTask = (files: FileContents, options?: TaskFileOptions): Promise<ReadTask> =>
  readTask(createMemorySource('small', Object.entries({ ...SMALL_TASK, ...files })), options)

export const readTaskToml = (text: string, files: FileContents = {}): Promise<ReadTask> =>
  readSmallTask({ ...files, 'task.toml': text })

/** Returns the findings that refuse a task, or an empty list if it is accepted. */
export async function readFindings(reading: Promise<unknown>): Promise<TaskFinding[]> {
  try {
    await reading
    return []
  } catch (error) {
    if (error instanceof TaskInvalid) return error.findings
    throw error
  }
}

/** Formats each finding as its code and path. */
export const summarizeFindings = (findings: readonly TaskFinding[]): string[] =>
  findings.map(({ code, path }) => `${code} ${path}`)

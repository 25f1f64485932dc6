import { type ReadTask, readTask } from '../read-task.ts'
import { inMemory } from '../source.ts'
import { type Finding, TaskInvalid } from '../task.ts'
import type { Files } from './folders.ts'

/** The least that is a task. */
export const SMALL_TASK: Files = {
  'task.toml': 'schema_version = "1.4"\n',
  'instruction.md': 'Do it.\n',
  'environment/Dockerfile': 'FROM debian:bookworm-slim\n',
  'tests/test.sh': 'echo 1 > /logs/verifier/reward.txt\n',
}

/** The small task with these files in it. */
export const readWith = (files: Files, options?: { isPackage?: boolean }): Promise<ReadTask> =>
  readTask(inMemory('small', Object.entries({ ...SMALL_TASK, ...files })), options)

export const readToml = (text: string, files: Files = {}): Promise<ReadTask> =>
  readWith({ ...files, 'task.toml': text })

/** What is wrong with it. Nothing: it was taken. */
export async function findingsOf(reading: Promise<unknown>): Promise<Finding[]> {
  try {
    await reading
    return []
  } catch (error) {
    if (error instanceof TaskInvalid) return error.findings
    throw error
  }
}

/** Each finding in short: its code and its path. */
export const shortly = (findings: readonly Finding[]): string[] => findings.map(({ code, path }) => `${code} ${path}`)

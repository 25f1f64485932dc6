import type { Digest } from '../platform/blobs/blob.ts'
import { CONFIG_FILE, type Config, readConfig } from './config.ts'
import { taskDigest } from './digest.ts'
import { withoutCanary } from './instruction.ts'
import { INSTRUCTION_BYTES_MAX, TOML_BYTES_MAX } from './limits.ts'
import { newReport, type Report } from './report.ts'
import { type Outline, resolveTask } from './resolve.ts'
import type { FileSource, SourceFile } from './source.ts'
import type { Finding, Task } from './task.ts'
import { hashed, listTaskFiles } from './task-files.ts'
import { readFolder } from './task-folder.ts'
import { readText } from './text-file.ts'
import { parseToml } from './toml-table.ts'

export type ReadTask = {
  task: Task
  /** Harbor's digest of exactly these files. Two digests can mean the same task. */
  digest: Digest
  /** What is allowed and yet worth a look. */
  warnings: Finding[]
}

/**
 * Reads and checks a task. Throws TaskInvalid, which lists everything that is wrong.
 * A package is what came from a registry: all of it counts. In a folder, what Harbor would not pack is left out.
 */
export async function readTask(source: FileSource, { isPackage = false } = {}): Promise<ReadTask> {
  const { outline, listed, report } = await readOutline(source, isPackage)
  report.check()
  if (!outline) throw new Error('A task without task.toml was not refused.')

  const files = await hashed(source, listed)
  const task = { ...outline, files: files.filter(({ path }) => path !== CONFIG_FILE) }
  return { task, digest: taskDigest(files), warnings: report.warnings }
}

/** What can be said of a task before its files are hashed; the report has what is wrong with it. */
export async function readOutline(
  source: FileSource,
  isPackage: boolean,
): Promise<{ outline: Outline | undefined; listed: SourceFile[]; report: Report }> {
  const report = newReport()
  const listed = await listTaskFiles(source, isPackage, report)
  const config = await readConfigFile(source, listed, report)
  const outline =
    config &&
    resolveTask(source.name, {
      config,
      files: await readFolder(source, listed, report),
      instructions: await readInstructions(source, config, listed, report),
      report,
    })
  return { outline, listed, report }
}

async function readConfigFile(source: FileSource, listed: SourceFile[], report: Report): Promise<Config | undefined> {
  if (!listed.some(({ path }) => path === CONFIG_FILE)) {
    report.refuse(CONFIG_FILE, 'missing_file', 'This file is needed.')
    return undefined
  }
  const text = await readText(source, CONFIG_FILE, TOML_BYTES_MAX, report)
  const table = text === undefined ? undefined : parseToml(text, CONFIG_FILE, report)
  return table && readConfig(table, report)
}

/** What the agent is told, by the path of the file. */
async function readInstructions(
  source: FileSource,
  { steps }: Config,
  listed: SourceFile[],
  report: Report,
): Promise<Map<string, string>> {
  const wanted = new Set(
    steps.length > 0 ? steps.map(({ name }) => `steps/${name}/instruction.md`) : ['instruction.md'],
  )
  const instructions = new Map<string, string>()
  for (const { path } of listed.filter((file) => wanted.has(file.path))) {
    const text = await readText(source, path, INSTRUCTION_BYTES_MAX, report)
    instructions.set(path, withoutCanary(text ?? ''))
  }
  return instructions
}

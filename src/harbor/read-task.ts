import { posix } from 'node:path'
import type { Digest } from '../platform/blobs/blob.ts'
import { COMPOSE_FILE, parseCompose } from './compose.ts'
import { CONFIG_FILE, readConfig, type TaskConfig } from './config.ts'
import { computeTaskDigest } from './digest.ts'
import { ENVIRONMENT_FOLDER, readEnvironmentFiles } from './environment.ts'
import { COMPOSE_BYTES_MAX, DEFAULT_LIMITS, INSTRUCTION_BYTES_MAX, TOML_BYTES_MAX } from './limits.ts'
import { createReport, type Report } from './report.ts'
import { resolveTask, type TaskOutline } from './resolve.ts'
import { MAIN_SERVICE } from './settings.ts'
import { type FileSource, readText, type SourceFile } from './source.ts'
import type { ComposeService, Task, TaskFinding } from './task.ts'
import { hashFiles, listTaskFiles, type TaskFileOptions } from './task-files.ts'
import { parseToml } from './toml-table.ts'

export type ReadTask = {
  task: Task
  /** Harbor's digest of exactly these files. Two digests can mean the same task. */
  digest: Digest
  /** Findings that do not refuse the task. */
  warnings: TaskFinding[]
}

/** Reads and checks a task. Throws TaskInvalid, which lists every problem. */
export async function readTask(source: FileSource, options?: TaskFileOptions): Promise<ReadTask> {
  const { outline, listed, report } = await readOutline(source, options)
  report.throwIfRefused()
  if (!outline) throw new Error('Task without task.toml was not refused.')

  const files = await hashFiles(source, listed)
  const task = { ...outline, files: files.filter(({ path }) => path !== CONFIG_FILE) }
  return { task, digest: computeTaskDigest(files), warnings: report.warnings }
}

/** Reads a task without hashing its files. Problems are in the report. */
export async function readOutline(
  source: FileSource,
  options?: TaskFileOptions,
): Promise<{ outline: TaskOutline | undefined; listed: SourceFile[]; report: Report }> {
  const report = createReport()
  const listed = await listTaskFiles(source, report, options)
  const config = await readConfigFile(source, listed, report)
  const outline =
    config &&
    resolveTask(source.name, {
      config,
      files: await readEnvironmentFiles(source, listed, report),
      instructions: await readInstructions(source, config, listed, report),
      report,
    })
  return { outline, listed, report }
}

async function readConfigFile(
  source: FileSource,
  listed: SourceFile[],
  report: Report,
): Promise<TaskConfig | undefined> {
  if (!listed.some(({ path }) => path === CONFIG_FILE)) {
    report.refuse(CONFIG_FILE, 'missing_file', 'Required file is missing.')
    return undefined
  }
  const text = await readText(source, CONFIG_FILE, TOML_BYTES_MAX, report)
  const table = text === undefined ? undefined : parseToml(text, CONFIG_FILE, report)
  return table && readConfig(table, report)
}

/** Reads the instructions, keyed by file path. */
async function readInstructions(
  source: FileSource,
  { steps }: TaskConfig,
  listed: SourceFile[],
  report: Report,
): Promise<Map<string, string>> {
  const wanted = new Set(
    steps.length > 0 ? steps.map(({ name }) => `steps/${name}/instruction.md`) : ['instruction.md'],
  )
  const instructions = new Map<string, string>()
  for (const { path } of listed.filter((file) => wanted.has(file.path))) {
    const text = await readText(source, path, INSTRUCTION_BYTES_MAX, report)
    instructions.set(path, stripCanary(text ?? ''))
  }
  return instructions
}

const CANARY = /^(<!--.*canary.*-->|#.*canary.*)$/i
const CANARY_LENGTH_MAX = 2000

/**
 * Removes the canary lines at the top of an instruction, which mark benchmarks for exclusion from training data, and the
 * empty lines after them.
 */
function stripCanary(text: string): string {
  const lines = text.split('\n')
  const afterCanary = lines.findIndex((line) => !isCanary(line.trim()))
  const start = lines.findIndex((line, index) => index >= afterCanary && line.trim() !== '')
  if (afterCanary < 0 || start < 0) return ''
  return lines.slice(start).join('\n')
}

const isCanary = (line: string): boolean => line.length <= CANARY_LENGTH_MAX && CANARY.test(line)

/**
 * Returns the memory that admission counts for a task: the declared memory of the agent, plus the declared or default
 * memory of each sidecar. Returns null if the task declares no readable limit and has no sidecars.
 */
export async function readDeclaredMemoryMb(source: FileSource): Promise<number | null> {
  const configMb = await readConfigMemoryMb(source)
  const services = await listServices(source)
  const mainMb = services.find(({ name }) => name === MAIN_SERVICE)?.resources.memoryMb ?? null
  const sidecars = services.filter(({ name }) => name !== MAIN_SERVICE)
  if (sidecars.length === 0) return mainMb ?? configMb
  const sidecarsMb = sidecars.reduce((sum, { resources }) => sum + (resources.memoryMb ?? DEFAULT_LIMITS.memoryMb), 0)
  return (mainMb ?? configMb ?? DEFAULT_LIMITS.memoryMb) + sidecarsMb
}

async function readConfigMemoryMb(source: FileSource): Promise<number | null> {
  const report = createReport()
  const text = await readFileText(source, CONFIG_FILE, TOML_BYTES_MAX)
  const table = text === undefined ? undefined : parseToml(text, CONFIG_FILE, report)
  return table ? readConfig(table, report).environment.resources.memoryMb : null
}

async function listServices(source: FileSource): Promise<ComposeService[]> {
  const text = await readFileText(source, posix.join(ENVIRONMENT_FOLDER, COMPOSE_FILE), COMPOSE_BYTES_MAX)
  return text === undefined ? [] : (parseCompose(text, ENVIRONMENT_FOLDER, createReport())?.services ?? [])
}

/** Returns the text of a file, or undefined if it is missing or unreadable. */
async function readFileText(source: FileSource, path: string, bytesMax: number): Promise<string | undefined> {
  const { files } = await source.list([path])
  return files.some((file) => file.path === path) ? readText(source, path, bytesMax, createReport()) : undefined
}

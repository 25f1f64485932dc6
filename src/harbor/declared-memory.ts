import { posix } from 'node:path'
import { COMPOSE_FILE, parseCompose } from './compose.ts'
import { CONFIG_FILE, readConfig } from './config.ts'
import { ENVIRONMENT_FOLDER } from './environment.ts'
import { COMPOSE_BYTES_MAX, DEFAULT_LIMITS, TOML_BYTES_MAX } from './limits.ts'
import { createReport } from './report.ts'
import type { FileSource } from './source.ts'
import type { ComposeService } from './task.ts'
import { readText } from './text-file.ts'
import { parseToml } from './toml-table.ts'

/**
 * Returns the memory that admission counts for a task: the declared memory of the agent, plus the declared or default
 * memory of each sidecar. Returns null if the task declares no readable limit and has no sidecars.
 */
export async function declaredMemoryMb(source: FileSource): Promise<number | null> {
  const own = await configMemoryMb(source)
  const services = await listServices(source)
  const main = services.find(({ name }) => name === 'main')?.resources.memoryMb ?? null
  const others = services.filter(({ name }) => name !== 'main')
  if (others.length === 0) return main ?? own
  const beside = others.reduce((sum, { resources }) => sum + (resources.memoryMb ?? DEFAULT_LIMITS.memoryMb), 0)
  return (main ?? own ?? DEFAULT_LIMITS.memoryMb) + beside
}

async function configMemoryMb(source: FileSource): Promise<number | null> {
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

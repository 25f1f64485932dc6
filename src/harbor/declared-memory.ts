import { CONFIG_FILE, readConfig } from './config.ts'
import { TOML_BYTES_MAX } from './limits.ts'
import { newReport } from './report.ts'
import type { FileSource } from './source.ts'
import { readText } from './text-file.ts'
import { parseToml } from './toml-table.ts'

/** What a task says that it needs. Null: it says nothing that can be read, which is for others to refuse. */
export async function declaredMemoryMb(source: FileSource): Promise<number | null> {
  const { files } = await source.list([CONFIG_FILE])
  if (!files.some(({ path }) => path === CONFIG_FILE)) return null
  const report = newReport()
  const text = await readText(source, CONFIG_FILE, TOML_BYTES_MAX, report)
  const table = text === undefined ? undefined : parseToml(text, CONFIG_FILE, report)
  return table ? readConfig(table, report).environment.resources.memoryMb : null
}

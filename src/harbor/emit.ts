import { createWriteStream } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { CONFIG_FILE } from './config.ts'
import { ENVIRONMENT_FOLDER } from './environment.ts'
import type { FileSource } from './source.ts'
import type { Task } from './task.ts'
import { taskToml } from './task-toml.ts'

/** Writes the task into a new folder: its files from the source, and task.toml in its one spelling. */
export async function emitTask(task: Task, source: FileSource, folder: string): Promise<void> {
  await mkdir(folder)
  await mkdir(join(folder, ENVIRONMENT_FOLDER)) // Harbor wants it, even empty
  for (const { path, executable } of task.files) {
    const target = join(folder, path)
    await mkdir(dirname(target), { recursive: true })
    await pipeline(
      await source.open(path),
      createWriteStream(target, { flags: 'wx', mode: executable ? 0o755 : 0o644 }),
    )
  }
  await writeFile(join(folder, CONFIG_FILE), taskToml(task), { flag: 'wx' })
}

import { readdir } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import { inFolder } from '../folder-source.ts'
import { type Check, type CheckOptions, checkTask } from './check-task.ts'
import type { Finding } from './rule.ts'
import { RULES_VERSION } from './rules.ts'

export type FolderCheck = { rules: string; tasks: { task: string; findings: Finding[]; strength: Check['strength'] }[] }

/** A folder that is a task, or one with tasks in it. */
export async function checkFolder(folder: string, options: CheckOptions = {}): Promise<FolderCheck> {
  const tasks: FolderCheck['tasks'] = []
  for (const path of await taskFolders(resolve(folder))) {
    const { findings, strength }: Check = await checkTask(await inFolder(path), options)
    tasks.push({ task: basename(path), findings, strength })
  }
  return { rules: RULES_VERSION, tasks }
}

/** Without a task.toml anywhere, the folder is taken for a task that lacks it. */
async function taskFolders(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  if (entries.some(({ name }) => name === 'task.toml')) return [folder]
  const inner: string[] = []
  for (const entry of entries.filter((each) => each.isDirectory())) {
    const path = join(folder, entry.name)
    if ((await readdir(path)).includes('task.toml')) inner.push(path)
  }
  return inner.length > 0 ? inner.toSorted() : [folder]
}

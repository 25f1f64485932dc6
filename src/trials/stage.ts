import { chmod, cp, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * A copy of folders of the task, later ones over earlier ones, in which every file can be read and run by any user.
 * Sandboxes get copies: what they mount must not be the task itself.
 */
export async function stage(taskFolder: string, folders: string[], target: string): Promise<string> {
  await mkdir(target, { recursive: true })
  for (const folder of folders) await cp(join(taskFolder, folder), target, { recursive: true, verbatimSymlinks: true })
  await openUp(target)
  return target
}

async function openUp(folder: string): Promise<void> {
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) await openUp(path)
    else if (entry.isFile()) await chmod(path, 0o755)
  }
}

import { chmod, cp, lstat, mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Who may look into a staged folder: any user, or root alone. */
type Audience = 'all' | 'root'

/**
 * A copy of folders of the task, later ones over earlier ones, in which every file can be read and run by any user.
 * Sandboxes get copies: what they mount must not be the task itself.
 */
export async function stage(
  taskFolder: string,
  folders: string[],
  target: string,
  audience: Audience = 'all',
): Promise<string> {
  await mkdir(target, { recursive: true })
  for (const folder of folders) await cp(join(taskFolder, folder), target, { recursive: true, verbatimSymlinks: true })
  await openUp(target)
  if (audience === 'root') await chmod(target, 0o700)
  return target
}

export async function openUp(path: string): Promise<void> {
  const stats = await lstat(path)
  if (stats.isSymbolicLink()) return
  await chmod(path, 0o755)
  if (!stats.isDirectory()) return
  for (const name of await readdir(path)) await openUp(join(path, name))
}

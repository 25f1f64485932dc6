import { execFile } from 'node:child_process'
import { readdir, stat } from 'node:fs/promises'
import { basename, join, matchesGlob, resolve } from 'node:path'
import { promisify } from 'node:util'
import { WrongUse } from './failure.ts'

/** Target of `assay run`. */
type RunTarget =
  | { kind: 'tasks'; folders: string[] }
  | { kind: 'dataset'; name: string }
  | { kind: 'repository'; name: string }

const DATASET_REFERENCE = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*(@\S+)?$/

/**
 * Resolves a target: a task folder, a folder of task folders, a git clone with a remote, or the name of a dataset. A folder
 * takes precedence over a dataset with the same name.
 */
export async function resolveTarget(text: string): Promise<RunTarget> {
  const folder = resolve(text)
  if (!(await isFolder(folder))) {
    if (DATASET_REFERENCE.test(text)) return { kind: 'dataset', name: text }
    throw new WrongUse(`${text} is neither a folder nor the name of a dataset (org/name).`)
  }
  const folders = await listTaskFolders(folder)
  if (folders.length > 0) return { kind: 'tasks', folders }
  const name = await findRemoteName(folder)
  if (name !== undefined) return { kind: 'repository', name }
  throw new WrongUse(`${text} contains no task (a folder with task.toml) and is not a git clone with a remote.`)
}

const NAMES_SHOWN_MAX = 20

/** Returns the items of which one name matches one glob, or all items without globs. Throws if none matches. */
export function filterByGlob<T>(items: readonly T[], listNames: (item: T) => string[], globs: readonly string[]): T[] {
  if (globs.length === 0) return [...items]
  const isMatching = (item: T) => listNames(item).some((name) => globs.some((glob) => matchesGlob(name, glob)))
  const matching = items.filter(isMatching)
  if (matching.length > 0 || items.length === 0) return matching
  const shortNames = items.slice(0, NAMES_SHOWN_MAX).map((item) => listNames(item).at(-1))
  throw new WrongUse(`No task matches ${globs.join(', ')}. There are: ${shortNames.join(', ')}.`)
}

export const toTaskName = (folder: string): string => basename(folder)

const isFolder = async (path: string): Promise<boolean> =>
  (await stat(path).catch(() => undefined))?.isDirectory() ?? false

const isTask = async (folder: string): Promise<boolean> =>
  (await stat(join(folder, 'task.toml')).catch(() => undefined))?.isFile() ?? false

async function listTaskFolders(folder: string): Promise<string[]> {
  if (await isTask(folder)) return [folder]
  const entries = await readdir(folder, { withFileTypes: true })
  const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(folder, name))
  const taskFolders = await Promise.all(folders.map(async (each) => ((await isTask(each)) ? [each] : [])))
  return taskFolders.flat().sort()
}

/** Returns `owner/name` of the remote `origin`, as code hosts write it in their addresses. */
async function findRemoteName(folder: string): Promise<string | undefined> {
  const run = promisify(execFile)
  const remote = await run('git', ['-C', folder, 'remote', 'get-url', 'origin']).catch(() => undefined)
  // Matches the last two parts of the address, without `.git`.
  const [, owner, name] = /[:/]([\w.-]+)\/([\w.-]+?)(?:\.git)?\/?\s*$/.exec(remote?.stdout ?? '') ?? []
  return owner && name ? `${owner}/${name}` : undefined
}

import type { Dirent } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { CONFIG_FILE } from '../harbor/config.ts'

/** A folder with a task in it, relative to the archive, and what it is called in its batch. */
type TaskFolder = { id: string; path: string }
/** `strays`: what belongs to no task. */
type TaskFolders = { folders: TaskFolder[]; strays: number }

/** `tasks/<group>/<task>/` is as deep as people pack. */
const DEPTH_MAX = 3
const ID_LENGTH_MAX = 80

/** Every folder with a task.toml that is not inside another task. */
export async function listTaskFolders(root: string): Promise<TaskFolders> {
  const found: { paths: string[]; strays: number } = { paths: [], strays: 0 }
  await walk(root, '', found)
  return { folders: assignIds(found.paths.sort()), strays: found.strays }
}

async function walk(root: string, path: string, found: { paths: string[]; strays: number }): Promise<void> {
  const entries: Dirent[] = await readdir(join(root, path), { withFileTypes: true })
  if (entries.some((entry) => entry.name === CONFIG_FILE && entry.isFile())) return void found.paths.push(path)
  const folders = entries.filter((entry) => entry.isDirectory())
  found.strays += entries.length - folders.length
  const isTooDeep = path.split('/').length >= DEPTH_MAX && path !== ''
  if (isTooDeep) found.strays += folders.length
  else for (const { name } of folders) await walk(root, path === '' ? name : `${path}/${name}`, found)
}

/** Fit for an address, and each its own. */
function assignIds(paths: string[]): TaskFolder[] {
  const taken = new Set<string>()
  return paths.map((path) => {
    const wanted = toTaskId(basename(path))
    let id = wanted
    for (let number = 2; taken.has(id); number++) id = `${wanted}-${number}`
    taken.add(id)
    return { id, path }
  })
}

const toTaskId = (name: string): string => {
  const plain = name.replaceAll(/[^A-Za-z0-9._-]+/g, '-').replace(/^[._-]+/, '')
  return plain.slice(0, ID_LENGTH_MAX) || 'task'
}

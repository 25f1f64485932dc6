import { lstat, readdir, readFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { Readable } from 'node:stream'
import { create } from 'tar'
import { ignoring } from './ignoring.ts'

const IGNORE_FILE = '.dockerignore'

/** The files that a build is given, without those that .dockerignore names; it needs itself and the Dockerfile. */
export async function contextTar(context: string, dockerfile: string): Promise<Readable> {
  const text = await readFile(join(context, IGNORE_FILE), 'utf8').catch(() => '')
  const isIgnored = ignoring(text)
  const needed = new Set([posix.normalize(dockerfile), IGNORE_FILE])
  return pack(context, await listFiles(context, '', (path) => isIgnored(path) && !needed.has(path)))
}

/** All files of a folder, below another name. */
export const folderTar = async (folder: string, prefix: string): Promise<Readable> =>
  pack(folder, await listFiles(folder, '', () => false), prefix)

/** Owners of this machine mean nothing in an image, and times would make every build a new one. */
const pack = (cwd: string, paths: string[], prefix = ''): Readable =>
  Readable.from(create({ cwd, prefix, portable: true, noDirRecurse: true, mtime: new Date(0) }, paths))

/** Ignored folders are looked through all the same: a later line may take a file of theirs back. */
async function listFiles(top: string, folder: string, leaveOut: (path: string) => boolean): Promise<string[]> {
  const names = (await readdir(join(top, folder))).sort()
  const found: string[] = []
  for (const name of names) {
    const path = posix.join(folder, name)
    const isFolder = (await lstat(join(top, path))).isDirectory()
    if (!leaveOut(path)) found.push(path)
    if (isFolder) found.push(...(await listFiles(top, path, leaveOut)))
  }
  return found
}

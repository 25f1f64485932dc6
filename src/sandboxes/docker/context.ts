import { lstat, readdir, readFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { Readable } from 'node:stream'
import { create } from 'tar'

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

/** Pure: what a .dockerignore leaves out. The last line that fits decides, and a folder's holds for all below it. */
export function ignoring(text: string): (path: string) => boolean {
  const rules = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const isException = line.startsWith('!')
      const pattern = posix.normalize(isException ? line.slice(1).trim() : line).replace(/^\/+|\/+$/g, '')
      return { isException, fits: new RegExp(`^${expression(pattern)}(/|$)`) }
    })
  return (path) => {
    const last = rules.findLast(({ fits }) => fits.test(path))
    return last !== undefined && !last.isException
  }
}

const TOKEN = /\*\*\/?|\*|\?|\[[^\]]*\]|\\.|[^*?[\\]/g

const WILD: Record<string, string> = { '**/': '(.*/)?', '**': '.*', '*': '[^/]*', '?': '[^/]' }

function expression(pattern: string): string {
  return pattern.replaceAll(TOKEN, (token) => {
    if (token.startsWith('[') && token.length > 2) return token
    return WILD[token] ?? token.replace(/^\\/, '').replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  })
}

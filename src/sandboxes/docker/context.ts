import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { Readable } from 'node:stream'
import { create } from 'tar'
import { type ClassicDockerfile, modeFolder } from '../kernel/dockerfile.ts'
import { tarFile, tarHeader, tarPadding } from '../kernel/tar-writer.ts'
import { SandboxUnsupported } from '../sandbox.ts'

const IGNORE_FILE = '.dockerignore'

/** Packs the files for a build, except those in .dockerignore. The Dockerfile and .dockerignore are always included. */
export async function contextTar(context: string, dockerfile: string): Promise<Readable> {
  return pack(context, await listContext(context, dockerfile))
}

export type ContextAdditions = Pick<ClassicDockerfile, 'files' | 'modes'>

/** Packs the same files and the additions. */
export async function extendedContextTar(
  context: string,
  dockerfile: string,
  { files, modes }: ContextAdditions,
): Promise<Readable> {
  const paths = await listContext(context, dockerfile)
  async function* entries(): AsyncGenerator<Buffer> {
    for (const { path, content, mode } of files) yield* tarFile(path, Buffer.from(content), mode)
    for (const mode of modes) for (const path of paths) yield* tarWithMode(context, path, mode)
    yield* pack(context, paths)
  }
  return Readable.from(entries())
}

/** Packs a copy of a file or folder with another mode. */
async function* tarWithMode(context: string, path: string, mode: number): AsyncGenerator<Buffer> {
  const source = join(context, path)
  const found = await lstat(source)
  const entry = { path: `${modeFolder(mode)}/${path}`, mode, uid: 0, gid: 0, size: 0, mtime: new Date(0) }
  if (found.isSymbolicLink()) yield tarHeader({ ...entry, type: 'SymbolicLink', link: await readlink(source) })
  else if (found.isDirectory()) yield tarHeader({ ...entry, type: 'Directory' })
  else if (found.isFile()) {
    const content = await readFile(source)
    yield tarHeader({ ...entry, type: 'File', size: content.length })
    yield content
    yield tarPadding(content.length)
  }
}

async function listContext(context: string, dockerfile: string): Promise<string[]> {
  const text = await readFile(join(context, IGNORE_FILE), 'utf8').catch(() => '')
  const isIgnored = ignoring(text)
  const needed = new Set([posix.normalize(dockerfile), IGNORE_FILE])
  return listFiles(context, '', (path) => isIgnored(path) && !needed.has(path))
}

/** Packs all files of a folder under another name. */
export const folderTar = async (folder: string, prefix: string): Promise<Readable> =>
  pack(folder, await listFiles(folder, '', () => false), prefix)

/** Normalises owners and times: owners have no meaning in an image, and times would defeat the build cache. */
const pack = (cwd: string, paths: string[], prefix = ''): Readable =>
  Readable.from(create({ cwd, prefix, portable: true, noDirRecurse: true, mtime: new Date(0) }, paths))

/** Lists the files of a context. Ignored folders are searched too, because a later pattern may include a file in them. */
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

/** Maximum number of characters that are compared in all, because the patterns are untrusted. */
const EFFORT = 5e7

/** Parses a .dockerignore into a predicate. The last matching line decides; a match of a folder applies to its contents. */
export function ignoring(text: string): (path: string) => boolean {
  const effort = { left: EFFORT }
  const rules = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const isException = line.startsWith('!')
      const pattern = posix.normalize(isException ? line.slice(1).trim() : line).replace(/^\/+|\/+$/g, '')
      return { isException, tokens: tokensOf(pattern) }
    })
  return (path) => {
    const last = rules.findLast(({ tokens }) => fits(tokens, path, effort))
    return last !== undefined && !last.isException
  }
}

/** `star` matches within one folder, `all` across folders, `folders` zero or more whole folders. */
type PatternToken = 'star' | 'all' | 'folders' | ((letter: string) => boolean)

const TOKEN = /\*\*\/?|\*|\?|\[[^\]]+\]|\\[\s\S]|[\s\S]/g
const WILD: Record<string, PatternToken> = {
  '**/': 'folders',
  '**': 'all',
  '*': 'star',
  '?': (letter) => letter !== '/',
}

const tokensOf = (pattern: string): PatternToken[] =>
  (pattern.match(TOKEN) ?? []).map((text) => WILD[text] ?? oneOf(text))

function oneOf(text: string): PatternToken {
  if (text.length > 2 && text.startsWith('[')) return classOf([...text.slice(1, -1)])
  const literal = text.length > 1 ? text.slice(1) : text
  return (letter) => letter === literal
}

function classOf(inner: string[]): PatternToken {
  const negated = inner[0] === '^'
  const members = negated ? inner.slice(1) : inner
  const isIn = (letter: string): boolean =>
    members.some((member, at) => {
      const [dash, last] = [members[at + 1], members[at + 2]]
      return dash === '-' && last !== undefined ? member <= letter && letter <= last : member === letter
    })
  return (letter) => letter !== '/' && isIn(letter) !== negated
}

/** Matches by tracking all positions in the pattern at once: time is linear in path length times pattern length. */
function fits(tokens: readonly PatternToken[], path: string, effort: { left: number }): boolean {
  let places = reached(tokens, [0])
  for (const letter of path) {
    if (letter === '/' && places.has(tokens.length)) return true
    effort.left -= places.size
    if (effort.left < 0)
      throw new SandboxUnsupported('The .dockerignore has too many patterns for this number of files.')
    places = reached(
      tokens,
      [...places].flatMap((place) => after(tokens, place, letter)),
    )
    if (places.size === 0) return false
  }
  return places.has(tokens.length)
}

/** Offset of the state inside a `folders` token whose folder name has not ended. */
const INSIDE = 0.5

function after(tokens: readonly PatternToken[], place: number, letter: string): number[] {
  const token = tokens[Math.floor(place)]
  if (token === undefined) return []
  if (token === 'star') return letter === '/' ? [] : [place]
  if (token === 'all') return [place]
  if (token === 'folders') return [Math.floor(place) + INSIDE, ...(letter === '/' ? [Math.floor(place) + 1] : [])]
  return token(letter) ? [place + 1] : []
}

/** Returns the positions that can be reached by skipping tokens that may match nothing. */
function reached(tokens: readonly PatternToken[], from: readonly number[]): Set<number> {
  const places = new Set(from)
  for (const place of places) if (typeof tokens[place] === 'string') places.add(place + 1)
  return places
}

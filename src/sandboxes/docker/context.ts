import { lstat, readdir, readFile, readlink } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { Readable } from 'node:stream'
import { create } from 'tar'
import { IGNORE_BYTES_MAX } from '../../harbor/limits.ts'
import { parseCharacterClass } from '../../harbor/paths.ts'
import { type ClassicDockerfile, modeFolder } from '../kernel/dockerfile.ts'
import { tarFile, tarHeader, tarPadding } from '../kernel/tar-writer.ts'
import { SandboxUnsupported } from '../sandbox.ts'

const IGNORE_FILE = '.dockerignore'

/** Packs the files for a build, except those in .dockerignore. The Dockerfile and .dockerignore are always included. */
export async function packBuildContext(context: string, dockerfile: string): Promise<Readable> {
  return pack(context, await listContext(context, dockerfile))
}

export type ContextAdditions = Pick<ClassicDockerfile, 'files' | 'modes'>

/** Packs the same files as `packBuildContext`, and additional ones. */
export async function packExtendedContext(
  context: string,
  dockerfile: string,
  { files, modes }: ContextAdditions,
): Promise<Readable> {
  const paths = await listContext(context, dockerfile)
  async function* entries(): AsyncGenerator<Buffer> {
    for (const { path, content, mode } of files) yield* tarFile(path, Buffer.from(content), mode)
    for (const mode of modes) for (const path of paths) yield* packWithMode(context, path, mode)
    yield* pack(context, paths)
  }
  return Readable.from(entries())
}

/** Packs a copy of a file or folder with another mode. */
async function* packWithMode(context: string, path: string, mode: number): AsyncGenerator<Buffer> {
  const source = join(context, path)
  const stats = await lstat(source)
  const entry = { path: `${modeFolder(mode)}/${path}`, mode, uid: 0, gid: 0, size: 0, mtime: new Date(0) }
  if (stats.isSymbolicLink()) yield tarHeader({ ...entry, type: 'SymbolicLink', link: await readlink(source) })
  else if (stats.isDirectory()) yield tarHeader({ ...entry, type: 'Directory' })
  else if (stats.isFile()) {
    const content = await readFile(source)
    yield tarHeader({ ...entry, type: 'File', size: content.length })
    yield content
    yield tarPadding(content.length)
  }
}

async function listContext(context: string, dockerfile: string): Promise<string[]> {
  const isIgnored = parseDockerignore(await readIgnoreFile(join(context, IGNORE_FILE)))
  const needed = new Set([posix.normalize(dockerfile), IGNORE_FILE])
  return listFiles(context, '', (path) => isIgnored(path) && !needed.has(path))
}

/** Returns an empty text if there is no such file. */
async function readIgnoreFile(path: string): Promise<string> {
  const stats = await lstat(path).catch(() => undefined)
  if (!stats?.isFile()) return ''
  if (stats.size > IGNORE_BYTES_MAX)
    throw new SandboxUnsupported(`${IGNORE_FILE} may have at most ${IGNORE_BYTES_MAX} bytes.`)
  return readFile(path, 'utf8')
}

/** Packs all files of a folder under another name. */
export const packFolder = async (folder: string, prefix: string): Promise<Readable> =>
  pack(folder, await listFiles(folder, '', () => false), prefix)

/** Packs files without owners and times: owners have no meaning in an image, and times would defeat the build cache. */
const pack = (cwd: string, paths: string[], prefix = ''): Readable =>
  Readable.from(create({ cwd, prefix, portable: true, noDirRecurse: true, mtime: new Date(0) }, paths))

/** Lists the files of a context. Ignored folders are searched too, because a later pattern may include a file in them. */
async function listFiles(top: string, folder: string, isExcluded: (path: string) => boolean): Promise<string[]> {
  const names = (await readdir(join(top, folder))).sort()
  const found: string[] = []
  for (const name of names) {
    const path = posix.join(folder, name)
    const isFolder = (await lstat(join(top, path))).isDirectory()
    if (!isExcluded(path)) found.push(path)
    if (isFolder) found.push(...(await listFiles(top, path, isExcluded)))
  }
  return found
}

/** Maximum number of comparisons of a character with a pattern, because the patterns are untrusted. */
const COMPARISONS_MAX = 5e7

/** Parses a .dockerignore into a predicate. The last matching line decides; a match of a folder applies to its contents. */
export function parseDockerignore(text: string): (path: string) => boolean {
  const budget = { comparisons: COMPARISONS_MAX }
  const rules = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const isException = line.startsWith('!')
      const pattern = posix.normalize(isException ? line.slice(1).trim() : line).replace(/^\/+|\/+$/g, '')
      return { isException, tokens: parsePattern(pattern) }
    })
  return (path) => {
    const last = rules.findLast(({ tokens }) => matchesPath(tokens, path, budget))
    return last !== undefined && !last.isException
  }
}

/** `star` matches within one folder, `all` across folders, `folders` zero or more whole folders. */
type PatternToken = 'star' | 'all' | 'folders' | ((character: string) => boolean)

/** Character classes are limited to 200 characters, so that a bracket that is never closed costs little time. */
const TOKEN = /\*\*\/?|\*|\?|\[[^\]]{1,200}\]|\\[\s\S]|[\s\S]/g
const WILDCARDS: Record<string, PatternToken> = {
  '**/': 'folders',
  '**': 'all',
  '*': 'star',
  '?': (character) => character !== '/',
}

const parsePattern = (pattern: string): PatternToken[] =>
  (pattern.match(TOKEN) ?? []).map((text) => WILDCARDS[text] ?? parseToken(text))

function parseToken(text: string): PatternToken {
  if (text.length > 2 && text.startsWith('[')) return parseClass([...text.slice(1, -1)])
  const literal = text.length > 1 ? text.slice(1) : text
  return (character) => character === literal
}

function parseClass(inner: string[]): PatternToken {
  const isNegated = inner[0] === '^'
  const isMember = parseCharacterClass(isNegated ? inner.slice(1) : inner)
  return (character) => character !== '/' && isMember(character) !== isNegated
}

/** Matches by tracking all positions in the pattern at once: time is linear in path length times pattern length. */
function matchesPath(tokens: readonly PatternToken[], path: string, budget: { comparisons: number }): boolean {
  let positions = skipEmptyMatches(tokens, [0])
  for (const character of path) {
    if (character === '/' && positions.has(tokens.length)) return true
    budget.comparisons -= positions.size
    if (budget.comparisons < 0)
      throw new SandboxUnsupported('The .dockerignore has too many patterns for this number of files.')
    positions = skipEmptyMatches(
      tokens,
      [...positions].flatMap((position) => advance(tokens, position, character)),
    )
    if (positions.size === 0) return false
  }
  return positions.has(tokens.length)
}

/**
 * Added to the position of a `folders` token after the first character of a folder name. Unlike at the position itself, the
 * token cannot be skipped there, because it must match up to the next slash.
 */
const IN_FOLDER = 0.5

/** Returns the positions after a character has been matched at a position. */
function advance(tokens: readonly PatternToken[], position: number, character: string): number[] {
  const token = tokens[Math.floor(position)]
  if (token === undefined) return []
  if (token === 'star') return character === '/' ? [] : [position]
  if (token === 'all') return [position]
  if (token === 'folders')
    return [Math.floor(position) + IN_FOLDER, ...(character === '/' ? [Math.floor(position) + 1] : [])]
  return token(character) ? [position + 1] : []
}

/** Returns the positions that can be reached by skipping tokens that may match nothing. */
function skipEmptyMatches(tokens: readonly PatternToken[], from: readonly number[]): Set<number> {
  const positions = new Set(from)
  for (const position of positions) if (typeof tokens[position] === 'string') positions.add(position + 1)
  return positions
}

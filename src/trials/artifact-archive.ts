import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { discardContent } from '../harbor/archive.ts'
import { findPathFault, parseCharacterClass } from '../harbor/paths.ts'
import { readTarEntries, type TarEntry } from '../harbor/tar-reader.ts'
import { tarEnd, tarPadding } from '../sandboxes/kernel/tar-writer.ts'
import { headerBlocks, type TarHeader } from './tar.ts'

type ArtifactSize = { files: number; bytes: number }

/** Runs in a thread. Copies the entries of a collected tar that are not excluded to a file. */
export async function spoolArtifact(
  { file, exclude }: { file: string; exclude: string[] },
  [tar]: readonly AsyncIterable<Buffer>[],
): Promise<ArtifactSize> {
  const size = { files: 0, bytes: 0 }
  await using target = await open(file, 'wx', 0o600)
  for await (const entry of readTarEntries(tar ?? Readable.from([]))) {
    if (isExcluded(entry.path.replace(/\/$/, ''), exclude)) {
      await discardContent(entry)
      continue
    }
    await copyEntry(entry, target)
    if (entry.type === 'File') size.files += 1
    size.bytes += entry.bytes
  }
  await target.writeFile(tarEnd())
  return size
}

async function copyEntry(entry: TarEntry, target: FileHandle): Promise<void> {
  for (const block of headerBlocks(toHeader(entry))) await target.writeFile(block)
  for await (const chunk of entry.content()) await target.writeFile(chunk)
  await target.writeFile(tarPadding(entry.bytes))
}

/** Returns the header of a file that root owns: user ids of one image mean nothing in another. */
function toHeader({ path, type, mode, bytes, linkTarget }: TarEntry): TarHeader {
  const fields = { path, mode: mode & 0o777, uid: 0, size: bytes }
  if (type === 'SymbolicLink') return { ...fields, type, linkpath: linkTarget }
  return { ...fields, type: type === 'Directory' ? type : 'File' }
}

/**
 * Runs in a thread. Unpacks a spooled artifact to `target`. The first part of each name, the name of the collected path, is
 * removed. Returns the entries that were left out: names that are not safe on every machine, and links, because stored files must not
 * lead elsewhere.
 */
export async function unpackArtifact({ tar, target }: { tar: string; target: string }): Promise<string[]> {
  const leftOut: string[] = []
  for await (const entry of readTarEntries(createReadStream(tar))) {
    const [, ...rest] = entry.path.replace(/\/$/, '').split('/')
    const relativePath = rest.join('/')
    const isUnsafeName = relativePath !== '' && findPathFault(relativePath) !== undefined
    if (entry.type === 'SymbolicLink' || isUnsafeName) {
      leftOut.push(entry.path)
      await discardContent(entry)
      continue
    }
    await writeEntry(entry, relativePath === '' ? target : join(target, relativePath))
  }
  return leftOut
}

async function writeEntry(entry: TarEntry, path: string): Promise<void> {
  if (entry.type === 'Directory') {
    await mkdir(path, { recursive: true, mode: 0o755 })
    return
  }
  await mkdir(dirname(path), { recursive: true, mode: 0o755 })
  await using file = await open(path, 'wx', 0o644)
  for await (const chunk of entry.content()) await file.writeFile(chunk)
}

/**
 * Returns true if a path is excluded by the rules of `tar --exclude`: a pattern may start at any folder of the path, `*`
 * matches slashes, and everything below an excluded folder is excluded.
 */
export function isExcluded(path: string, patterns: readonly string[]): boolean {
  const parts = path.split('/')
  const parsedPatterns = patterns.map((pattern) => parsePattern(pattern.replace(/\/+$/, '')))
  for (let start = 0; start < parts.length; start += 1) {
    for (let end = start + 1; end <= parts.length; end += 1) {
      const subpath = parts.slice(start, end).join('/')
      if (parsedPatterns.some((tokens) => matches(tokens, subpath))) return true
    }
  }
  return false
}

/** `*`, or a test for a single character. */
type GlobToken = '*' | ((character: string) => boolean)

/** A character class, an escaped character, or any other character. */
const PATTERN_TOKEN = /\[[!^]?.[^\]]*\]|\\.|./gsu

const parsePattern = (pattern: string): GlobToken[] => (pattern.match(PATTERN_TOKEN) ?? []).map(parseToken)

function parseToken(text: string): GlobToken {
  if (text === '*') return text
  if (text === '?') return () => true
  if (text.length > 2 && text.startsWith('[')) return parseClass([...text.slice(1, -1)])
  const literal = text.length > 1 && text.startsWith('\\') ? text.slice(1) : text
  return (character) => character === literal
}

function parseClass(inner: string[]): GlobToken {
  const isNegated = inner[0] === '!' || inner[0] === '^'
  const isMember = parseCharacterClass(isNegated ? inner.slice(1) : inner)
  return (character) => isMember(character) !== isNegated
}

/** Takes at most time proportional to text × pattern: after a mismatch, only the last star is extended by a character. */
function matches(tokens: GlobToken[], text: string): boolean {
  const characters = [...text]
  let tokenIndex = 0
  let position = 0
  let lastStar: { tokenIndex: number; end: number } | undefined
  while (position < characters.length) {
    const token = tokens[tokenIndex]
    if (token === '*') {
      lastStar = { tokenIndex, end: position }
      tokenIndex += 1
    } else if (token?.(characters[position] ?? '')) {
      tokenIndex += 1
      position += 1
    } else if (lastStar === undefined) {
      return false
    } else {
      lastStar.end += 1
      position = lastStar.end
      tokenIndex = lastStar.tokenIndex + 1
    }
  }
  return tokens.slice(tokenIndex).every((token) => token === '*')
}

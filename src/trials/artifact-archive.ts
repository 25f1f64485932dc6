import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { discardContent } from '../harbor/archive.ts'
import { findPathFault } from '../harbor/paths.ts'
import { readTarEntries, type TarEntry } from '../harbor/tar-reader.ts'
import { tarEnd, tarPadding } from '../sandboxes/kernel/tar-writer.ts'
import { headerBlocks, type TarHeader } from './tar.ts'

type ArtifactSize = { files: number; bytes: number }

/** Runs in a thread. Writes a collected tar, the only source, to a file, without excluded entries. */
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
 * Runs in a thread. Unpacks a spooled artifact; `target` replaces the first part of each name, which is that of the source.
 * Returns the entries that were left out: names that are not safe on every machine, and links, because stored files must not
 * lead elsewhere.
 */
export async function unpackArtifact({ tar, target }: { tar: string; target: string }): Promise<string[]> {
  const leftOut: string[] = []
  for await (const entry of readTarEntries(createReadStream(tar))) {
    const [, ...rest] = entry.path.replace(/\/$/, '').split('/')
    const relativePath = rest.join('/')
    if (entry.type === 'SymbolicLink' || (relativePath !== '' && findPathFault(relativePath) !== undefined)) {
      leftOut.push(entry.path)
      await discardContent(entry)
      continue
    }
    await writeEntry(entry, relativePath === '' ? target : join(target, relativePath))
  }
  return leftOut
}

async function writeEntry(entry: TarEntry, path: string): Promise<void> {
  if (entry.type === 'Directory') return void (await mkdir(path, { recursive: true, mode: 0o755 }))
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
  return patterns.some((pattern) => {
    const tokens = parsePattern(pattern.replace(/\/+$/, ''))
    return parts.some((_, start) =>
      parts.slice(start).some((_part, length) => matches(tokens, parts.slice(start, start + length + 1).join('/'))),
    )
  })
}

type GlobToken = '*' | ((character: string) => boolean)

const PATTERN_TOKEN = /\[[!^]?.[^\]]*\]|\\.|./gsu

const parsePattern = (pattern: string): GlobToken[] => (pattern.match(PATTERN_TOKEN) ?? []).map(parseToken)

function parseToken(text: string): GlobToken {
  if (text === '*') return text
  if (text === '?') return () => true
  if (text.length > 2 && text.startsWith('[')) return parseCharacterClass([...text.slice(1, -1)])
  const literal = text.length > 1 && text.startsWith('\\') ? text.slice(1) : text
  return (character) => character === literal
}

function parseCharacterClass(inner: string[]): (character: string) => boolean {
  const negated = inner[0] === '!' || inner[0] === '^'
  const members = negated ? inner.slice(1) : inner
  const isIn = (character: string): boolean =>
    members.some((member, at) => {
      const [dash, last] = [members[at + 1], members[at + 2]]
      if (dash === '-' && last !== undefined) return member <= character && character <= last
      return member === character
    })
  return (character) => isIn(character) !== negated
}

/** Takes at most time proportional to text × pattern: after a mismatch only the last star is tried again. */
function matches(tokens: GlobToken[], text: string): boolean {
  const characters = [...text]
  let [token, at, star, retry] = [0, 0, -1, 0]
  while (at < characters.length) {
    const current = tokens[token]
    if (current === '*') {
      star = token
      token += 1
      retry = at
    } else if (current?.(characters[at] ?? '')) {
      token += 1
      at += 1
    } else if (star === -1) {
      return false
    } else {
      token = star + 1
      retry += 1
      at = retry
    }
  }
  return tokens.slice(token).every((each) => each === '*')
}

import { createHash } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { readTarEntries, type TarEntry } from '../harbor/tar-reader.ts'
import type { ChunkStream } from '../platform/threads/serve-tasks.ts'
import {
  type Change,
  type Contents,
  changesBetween,
  type PatchFile,
  type PatchTree,
  patchText,
  sortChanges,
} from './patch-text.ts'

/** Maximum of files and bytes that are looked at, on each side. */
export const TREE_CAPS = { files: 50_000, bytes: 4 * 1024 ** 3 }
/** Maximum of what is shown. */
const PATCH_CAPS = { files: 2000, fileBytes: 1024 ** 2, allBytes: 16 * 1024 ** 2 }
/** About one second of processor time. */
const EFFORT = 5e6
/** A sandbox names as many files that it leaves out; then it stops looking. */
const LEFT_OUT_MAX = 1000

/**
 * Runs in a thread. Reads tars of the folder before and after the agent's work, to see what differs, and then both again
 * for the contents of the differing files. Each source ends with the names of files that were left out.
 */
export async function writePatch({ file }: { file: string }, sources: ChunkStream[]): Promise<void> {
  const [before, after, beforeAgain, afterAgain] = sources
  if (!before || !after || !beforeAgain || !afterAgain) throw new Error('A patch needs four sources.')
  const [old, fresh] = [await treeOf(before), await treeOf(after)]
  const sorted = sortChanges(changesBetween(old, fresh), PATCH_CAPS)
  const paths = (isIn: (change: Change) => unknown) => new Set(sorted.shown.filter(isIn).map(({ path }) => path))
  const contents = {
    before: await contentsOf(
      beforeAgain,
      paths((change) => change.before),
    ),
    after: await contentsOf(
      afterAgain,
      paths((change) => change.after),
    ),
  }
  const text = patchText({ ...sorted, ...contents, leftOut: fresh.leftOut }, { left: EFFORT })
  if (text === '') await rm(file, { force: true })
  else await writeFile(file, text, 'latin1')
}

/** Names without that of the folder itself. */
const inside = (path: string): string => path.replace(/\/$/, '').split('/').slice(1).join('/')

async function treeOf(source: ChunkStream): Promise<PatchTree> {
  const files = new Map<string, PatchFile>()
  const { chunks, end } = withEnd(source)
  let entries = 0
  for await (const entry of readTarEntries(chunks)) {
    entries += 1
    const file = await fileOf(entry)
    if (file && inside(entry.path) !== '') files.set(inside(entry.path), file)
  }
  const named = end()
  if (!Array.isArray(named)) return { files, leftOut: [], isComplete: true }
  const leftOut = named.map((path) => inside(String(path)))
  // The folder itself: of what was not read any more, nobody knows the names.
  const isComplete = entries < TREE_CAPS.files && leftOut.length < LEFT_OUT_MAX && !leftOut.includes('')
  return { files, leftOut: leftOut.map((path) => path || '(more)'), isComplete }
}

/** The value that a source returns is known once it has been read to its end. */
function withEnd(source: ChunkStream): { chunks: AsyncIterable<Buffer>; end(): unknown } {
  let value: unknown
  const chunks = async function* () {
    value = yield* source
  }
  return { chunks: chunks(), end: () => value }
}

async function fileOf(entry: TarEntry): Promise<PatchFile | undefined> {
  const hash = createHash('sha256')
  for await (const chunk of entry.content()) hash.update(chunk)
  if (entry.type === 'Directory') return undefined
  const isLink = entry.type === 'SymbolicLink'
  if (isLink) hash.update(entry.linkTarget)
  return {
    kind: isLink ? 'link' : 'file',
    isExecutable: !isLink && (entry.mode & 0o100) !== 0,
    ...{ bytes: entry.bytes, digest: hash.digest('hex') },
  }
}

/** A character for each byte, so that what is no UTF-8 stays what it is. */
async function contentsOf(source: ChunkStream, wanted: ReadonlySet<string>): Promise<Contents> {
  const contents = new Map<string, string>()
  if (wanted.size === 0) return contents
  for await (const entry of readTarEntries(source)) {
    const path = inside(entry.path)
    const chunks: Buffer[] = []
    for await (const chunk of entry.content()) if (wanted.has(path)) chunks.push(chunk)
    if (wanted.has(path)) contents.set(path, Buffer.concat(chunks).toString('latin1'))
  }
  return contents
}

import { createHash } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as breathe } from 'node:timers/promises'
import { type TarEntry, tarEntries } from '../harbor/tar-reader.ts'
import type { Step } from '../harbor/task.ts'
import type { Remains, Sandbox } from '../sandboxes/sandbox.ts'
import { untouched } from './agent.ts'
import type { Bench } from './bench.ts'
import {
  type Change,
  type Contents,
  changesBetween,
  type PatchFile,
  type PatchTree,
  patchText,
  sortChanges,
} from './patch-text.ts'
import type { Surroundings } from './surroundings.ts'

const NAME = 'changes.patch'
/** Of what is looked at, on each side. */
const TREE_CAPS = { files: 50_000, bytes: 4 * 1024 ** 3 }
/** Of what is shown. */
const PATCH_CAPS = { files: 2000, fileBytes: 1024 ** 2, allBytes: 16 * 1024 ** 2 }
/** About half a second of looking for the shortest way. */
const EFFORT = 5e7
/** As many are told of what a sandbox leaves out; then it stops looking. */
const LEFT_OUT_MAX = 1000

/**
 * Keeps what the agent changed in the task's working folder: what it left there against what it found, which a second
 * sandbox shows that nobody worked in. Both are dead; nothing of them is run, unpacked or followed here. A patch that
 * cannot be made spoils no trial: the file says why.
 */
export async function keepPatch(bench: Bench, around: Surroundings, step: Step, left: Sandbox): Promise<void> {
  const file = join(bench.request.outputFolder, NAME)
  try {
    if (around.workdir === '/') throw new Error('The working folder is the whole filesystem.')
    const before = await untouched(bench, around, step)
    const text = await patchBetween(before.remains, left.remains, around.workdir)
    bench.removeLater(before)
    if (text !== '') await writeFile(file, text, 'latin1')
  } catch (error) {
    bench.request.signal.throwIfAborted()
    const [line] = String(error).split('\n')
    await writeFile(file, `# There is no patch: ${line}\n`)
  } finally {
    // What the second sandbox said is nobody's.
    for (const name of ['untouched', 'environment-untouched', 'setup'])
      await rm(bench.outputFile(name), { force: true })
  }
}

/** Looks twice: once to see what differs, once for the contents of that alone. */
async function patchBetween(before: Remains, after: Remains, folder: string): Promise<string> {
  const [old, fresh] = [await treeOf(before, folder), await treeOf(after, folder)]
  const sorted = sortChanges(changesBetween(old, fresh), PATCH_CAPS)
  const paths = (isIn: (change: Change) => unknown) => new Set(sorted.shown.filter(isIn).map(({ path }) => path))
  const contents = {
    before: await contentsOf(
      before,
      folder,
      paths((change) => change.before),
    ),
    after: await contentsOf(
      after,
      folder,
      paths((change) => change.after),
    ),
  }
  await breathe()
  return patchText({ ...sorted, ...contents, leftOut: fresh.leftOut }, { left: EFFORT })
}

/** Names without that of the folder itself. */
const inside = (path: string): string => path.replace(/\/$/, '').split('/').slice(1).join('/')

async function treeOf(remains: Remains, folder: string): Promise<PatchTree> {
  const files = new Map<string, PatchFile>()
  const found = await remains.collect(folder, TREE_CAPS)
  if (!found) return { files, leftOut: [], isComplete: true }
  let entries = 0
  for await (const entry of tarEntries(found.tar)) {
    entries += 1
    const file = await fileOf(entry)
    if (file && inside(entry.path) !== '') files.set(inside(entry.path), file)
  }
  const leftOut = found.leftOut.map(inside)
  // The folder itself: of what was not read any more, nobody knows the names.
  const isComplete = entries < TREE_CAPS.files && leftOut.length < LEFT_OUT_MAX && !leftOut.includes('')
  return { files, leftOut: leftOut.map((path) => path || '(more)'), isComplete }
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
async function contentsOf(remains: Remains, folder: string, wanted: ReadonlySet<string>): Promise<Contents> {
  const contents = new Map<string, string>()
  const found = wanted.size === 0 ? undefined : await remains.collect(folder, TREE_CAPS)
  if (!found) return contents
  for await (const entry of tarEntries(found.tar)) {
    const path = inside(entry.path)
    const chunks: Buffer[] = []
    for await (const chunk of entry.content()) if (wanted.has(path)) chunks.push(chunk)
    if (wanted.has(path)) contents.set(path, Buffer.concat(chunks).toString('latin1'))
  }
  return contents
}

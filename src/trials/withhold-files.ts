import { posix } from 'node:path'
import { Readable } from 'node:stream'
import { discardContent } from '../harbor/archive.ts'
import { isWithin } from '../harbor/paths.ts'
import { readTarEntries, type TarEntry } from '../harbor/tar-reader.ts'
import { runOnce } from '../platform/concurrency.ts'
import { tarEnd, tarPadding } from '../sandboxes/kernel/tar-writer.ts'
import type { SandboxSpec, StoppedSandbox } from '../sandboxes/sandbox.ts'
import {
  createEmptyTar,
  findInTar,
  listFoldersBetween,
  type OriginalFile,
  type PlacedFiles,
  readKind,
  toName,
} from './place-files.ts'
import { headerBlocks, type TarHeader } from './tar.ts'

/** Describes how the files of a configuration are taken out of a stopped sandbox. */
type Withdrawal = {
  /** Paths whose content in the sandbox is not used. */
  hidden: string[]
  /** Files of the task that take their places again. */
  restored: OriginalFile[]
  /** Files of the configuration that the agent changed, relative to the working directory. */
  changed: string[]
}

/** `raw`: the sandbox as the agent left it. */
type ConfiguredView = { raw: StoppedSandbox; plan: () => Promise<Withdrawal> }

/** The sandbox behind each view. Providers know only that sandbox, so a view is replaced before it reaches them. */
const views = new WeakMap<StoppedSandbox, ConfiguredView>()

/**
 * Returns a view of a stopped sandbox in which the files of the configuration are absent, and the files of the task that
 * they replaced are as they were. Everything else that the agent left is unchanged.
 */
export function withholdFiles(raw: StoppedSandbox, placed: PlacedFiles): StoppedSandbox {
  const plan = runOnce(() => planWithdrawal(raw, placed))
  const view: StoppedSandbox = {
    sandboxId: raw.sandboxId,
    collect: async (path, caps) => collectWithout(raw, await plan(), path, caps),
    async *changes() {
      const { hidden } = await plan()
      for await (const change of raw.changes()) if (!isHidden(hidden, change.path)) yield change
    },
  }
  views.set(view, { raw, plan })
  return view
}

const isHidden = (hidden: readonly string[], path: string): boolean => hidden.some((each) => isWithin(path, each))

async function planWithdrawal(raw: StoppedSandbox, placed: PlacedFiles): Promise<Withdrawal> {
  const { workdir, paths, newFolders, originals, files } = placed
  const candidates = [...paths]
  for (const folder of newFolders) if (await containsOnly(raw, folder, paths)) candidates.push(folder)
  // Nothing of the configuration is left below a folder that the agent replaced by a file or a link.
  const hidden: string[] = []
  for (const path of candidates) if (await isReachable(raw, workdir, path)) hidden.push(path)
  const restored = originals.filter(({ path }) => hidden.includes(path))
  const changed: string[] = []
  for (const [index, file] of files.entries())
    if (await isChanged(raw, paths[index] ?? '', file.text)) changed.push(file.path)
  return { hidden, restored, changed }
}

/** Returns true if everything between the working directory and a path is a folder, or missing. */
async function isReachable(raw: StoppedSandbox, workdir: string, path: string): Promise<boolean> {
  for (const folder of listFoldersBetween(workdir, path)) if ((await readKind(raw, folder)) === 'other') return false
  return true
}

/** Returns true if a folder holds nothing but these files and empty folders. */
async function containsOnly(raw: StoppedSandbox, folder: string, paths: readonly string[]): Promise<boolean> {
  const found = await raw.collect(folder, { files: 10_000, bytes: 64 * 1024 ** 2 })
  if (!found) return true
  let isOnly = found.leftOut.length === 0
  for await (const entry of readTarEntries(found.tar)) {
    await discardContent(entry)
    const path = posix.join(posix.dirname(folder), toName(entry))
    if (entry.type !== 'Directory' && !paths.some((each) => isWithin(path, each))) isOnly = false
  }
  return isOnly
}

async function isChanged(raw: StoppedSandbox, path: string, text: string): Promise<boolean> {
  const expected = Buffer.from(text)
  const found = await raw.collect(path, { files: 1, bytes: expected.length })
  const entry = await findInTar(found?.tar, posix.basename(path), path)
  return entry?.type !== 'File' || !entry.content.equals(expected)
}

async function collectWithout(
  raw: StoppedSandbox,
  { hidden, restored }: Withdrawal,
  path: string,
  caps: { files: number; bytes: number },
) {
  const target = posix.resolve('/', path)
  const restoredHere = restored.filter((original) => isWithin(original.path, target))
  const found = isHidden(hidden, target) ? undefined : await raw.collect(path, caps)
  if (!found && restoredHere.length === 0) return undefined
  const hasHiddenFiles = hidden.some((each) => isWithin(each, target))
  if (found && restoredHere.length === 0 && !hasHiddenFiles) return found
  const folder = posix.dirname(target)
  const toPath = (name: string): string => (target === '/' ? posix.join('/', name) : posix.join(folder, name))
  const leftOut = (found?.leftOut ?? []).filter((name) => !isHidden(hidden, toPath(name)))
  const isDropped = (entry: TarEntry) => isHidden(hidden, toPath(toName(entry)))
  const restoredEntries = restoredHere.map((original) => ({
    ...original,
    path: posix.relative(target === '/' ? '/' : folder, original.path),
  }))
  return { tar: Readable.from(replaceEntries(found?.tar, isDropped, restoredEntries), { objectMode: false }), leftOut }
}

async function* replaceEntries(
  tar: Readable | undefined,
  isDropped: (entry: TarEntry) => boolean,
  added: readonly OriginalFile[],
): AsyncGenerator<Buffer> {
  for await (const entry of readTarEntries(tar ?? createEmptyTar())) {
    if (isDropped(entry)) {
      await discardContent(entry)
      continue
    }
    yield* headerBlocks({ ...toHeader(entry), path: entry.path, size: entry.bytes })
    yield* entry.content()
    yield tarPadding(entry.bytes)
  }
  for (const original of added) {
    const { length } = original.content
    yield* headerBlocks({ ...toHeader(original), path: original.path, size: length })
    yield original.content
    yield tarPadding(length)
  }
  yield tarEnd()
}

function toHeader(entry: Omit<OriginalFile, 'path' | 'content'>): Omit<TarHeader, 'path' | 'size'> {
  const { mode, uid, gid, mtime, linkTarget } = entry
  if (entry.type === 'SymbolicLink') return { type: entry.type, mode, uid, gid, mtime, linkpath: linkTarget }
  return { type: entry.type === 'Directory' ? entry.type : 'File', mode, uid, gid, mtime }
}

/** Lists the files of the configuration that the agent of this sandbox changed. Empty without a configuration. */
export const listChangedFiles = async (stopped: StoppedSandbox): Promise<string[]> =>
  (await views.get(stopped)?.plan())?.changed ?? []

/** Replaces a view in the base filesystem by the sandbox behind it. The new sandbox gets the files of the view. */
export async function resolveBase<Spec extends Pick<SandboxSpec, 'baseFilesystem' | 'uploads'>>(
  spec: Spec,
): Promise<Spec> {
  const { baseFilesystem: base, uploads } = spec
  const view = base.kind === 'image' ? undefined : views.get(base.from)
  if (base.kind === 'image' || !view) return spec
  const { hidden, restored } = await view.plan()
  const isCarried = (path: string): boolean =>
    base.kind === 'snapshot' || base.paths.some((folder) => isWithin(path, folder))
  const carried = restored.filter(({ path }) => isCarried(path))
  return {
    ...spec,
    baseFilesystem: { ...base, from: view.raw, without: [...(base.without ?? []), ...hidden] },
    uploads: [...(carried.length > 0 ? [{ target: '/', tar: packOriginals(carried) }] : []), ...uploads],
  }
}

/** Packs files of the task, to be unpacked at the root of a sandbox. */
export const packOriginals = (originals: readonly OriginalFile[]): Readable =>
  Readable.from(
    replaceEntries(
      undefined,
      () => false,
      originals.map((original) => ({ ...original, path: posix.relative('/', original.path) })),
    ),
    { objectMode: false },
  )

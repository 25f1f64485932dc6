import { posix } from 'node:path'
import type { Readable } from 'node:stream'
import { LOOKUP_SETTINGS, listUnsafePaths } from '../kernel/accounts.ts'
import { toPathParts } from '../kernel/inside.ts'
import { packUploads } from '../kernel/upload-archive.ts'
import { type BaseFilesystem, type SandboxSpec, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { type Cluster, MAIN } from './cluster.ts'
import { openExec } from './exec-stream.ts'
import {
  type FileListing,
  FOLDER,
  isAtOrBelow,
  isSince,
  type ListedFile,
  RUNTIME_PATHS,
  toListedPath,
} from './listing.ts'
import { type StoppedPod, stoppedPodOf } from './stopped-sandbox.ts'
import { scriptWords, words } from './tools.ts'
import { collectPath, requireFolders, runScript, TRANSFER_MS, unpackIn } from './transfer.ts'

/** Limits for files that are collected from a sandbox. */
const CAPS = { files: 200_000, bytes: 4 * 1024 ** 3 }

/** Puts the base filesystem and the uploads into a sandbox in which nothing runs yet. */
export async function fillSandbox(cluster: Cluster, pod: string, spec: SandboxSpec): Promise<void> {
  const { baseFilesystem: base, uploads, image } = spec
  if (base.kind === 'snapshot') await copySnapshot(cluster, pod, base, image.digest)
  const workspace = base.kind === 'workspace' ? await moveWorkspace(cluster, pod, base) : []
  if (workspace.length === 0 && uploads.length === 0) return
  await requireFolders(
    cluster,
    pod,
    uploads.map(({ target }) => target),
  )
  await unpackIn(cluster, { pod, container: MAIN, folder: '/' }, packUploads(workspace, uploads))
}

/** Removes the paths of a workspace from the new sandbox and returns archives of those of the earlier one. */
async function moveWorkspace(
  cluster: Cluster,
  pod: string,
  { from, paths, without = [] }: Extract<BaseFilesystem, { kind: 'workspace' }>,
): Promise<Readable[]> {
  const normalized = [...new Set(paths.map((path) => posix.join('/', ...toPathParts(path))))].sort()
  const roots = normalized.filter((path) => !normalized.some((other) => other !== path && isAtOrBelow(path, [other])))
  if (roots.includes('/'))
    throw new SandboxUnsupported('The workspace / includes the whole sandbox. Use a snapshot instead.')
  const earlier = stoppedPodOf(from)
  const archives: Readable[] = []
  for (const path of roots) {
    const prefix = toPathParts(path)
      .slice(0, -1)
      .map((part) => `${part}/`)
      .join('')
    const isDropped = (inside: string): boolean => isAtOrBelow(`/${inside}`, [...without, ...RUNTIME_PATHS])
    const found = earlier.isGone()
      ? undefined
      : await collectPath(earlier.cluster, { pod: earlier.pod, container: MAIN }, path, {
          caps: CAPS,
          prefix,
          isDropped,
        })
    if (found) archives.push(found.tar)
  }
  await runScript(cluster, pod, REMOVE_ALL, roots)
  return archives
}

/** Files that the runtime mounts cannot be removed. The first process restores account files that cannot be opened. */
const REMOVE_ALL = 'call rm -rf -- "$@" 2> /dev/null; :'

/** Changes of a stopped sandbox as the next one repeats them. Paths are those of the listings. */
type SnapshotPlan = {
  removedFiles: string[]
  /** Folders, each after those below it. */
  removedFolders: string[]
  taken: string[]
}

/** Plans a snapshot. `kept` are paths that the next sandbox has from the image. */
export function planSnapshot(
  image: FileListing,
  now: FileListing,
  mark: string,
  kept: readonly string[],
): SnapshotPlan {
  const isTaken = ([path, { type, changedAt }]: [string, ListedFile]): boolean =>
    (isSince(changedAt, mark) || image.get(path)?.type !== type) &&
    type !== SOCKET &&
    !isAtOrBelow(path, kept) &&
    // A file or link in place of a folder that contains a kept path is not taken.
    (type === FOLDER || !kept.some((other) => isAtOrBelow(other, [path])))
  const taken = [...now].filter(isTaken).map(([path]) => path)
  const isFolder = (files: FileListing, path: string): boolean => files.get(path)?.type === FOLDER
  const replaced = taken.filter((path) => image.has(path) && isFolder(image, path) !== isFolder(now, path))
  const deleted = [...image.keys()].filter((path) => !now.has(path) && !isAtOrBelow(path, kept))
  const removed = [...replaced, ...deleted]
  return {
    taken,
    removedFiles: removed.filter((path) => !isFolder(image, path)),
    removedFolders: removed
      .filter((path) => isFolder(image, path))
      .sort()
      .reverse(),
  }
}

const SOCKET = 's'

async function copySnapshot(
  cluster: Cluster,
  pod: string,
  { from, without }: Extract<BaseFilesystem, { kind: 'snapshot' }>,
  digest: string,
): Promise<void> {
  const earlier = stoppedPodOf(from)
  if (earlier.imageDigest !== digest)
    throw new SandboxUnsupported('A snapshot can only be continued on the image that it was taken from.')
  if (earlier.isGone())
    throw new SandboxUnavailable(
      'The cluster removed the files of the earlier sandbox, so that it cannot be continued.',
    )
  const now = await earlier.listing()
  const kept = [...without, ...(await listUnsafe(earlier, now)), ...RUNTIME_PATHS].map(toListedPath)
  const plan = planSnapshot(earlier.image, now, earlier.mark, kept)
  await runScript(cluster, pod, removeListed('rm'), [], toLines(plan.removedFiles))
  await runScript(cluster, pod, removeListed('rmdir'), [], toLines(plan.removedFolders))
  const { kubernetes, namespace } = earlier.cluster
  const source = await openExec(kubernetes, { namespace, pod: earlier.pod, container: MAIN }, scriptWords(PACK_LISTED))
  const timer = setTimeout(() => source.close(), TRANSFER_MS)
  try {
    for await (const lines of toLines(plan.taken)) await source.write(lines)
    await source.end()
    await unpackIn(cluster, { pod, container: MAIN, folder: '/' }, source.output)
    if ((await source.code) !== 0) throw new SandboxUnavailable('The files of a stopped sandbox could not be read.')
  } finally {
    clearTimeout(timer)
    source.close()
  }
}

/** Folders that still have files, and files that the runtime mounts, cannot be removed. */
const removeListed = (program: 'rm' | 'rmdir'): string =>
  `call xargs -0 -r ${words(program, ...(program === 'rm' ? ['-f'] : []), '--').join(' ')} 2> /dev/null; :`

/** The program is not replaced by tar, because the runtime stops sending input when the output is closed. */
const PACK_LISTED = `call cat | call tar --create --file=- --directory=/ --format=posix --numeric-owner --sparse --no-recursion --null --verbatim-files-from --files-from=-`

const LINES_BYTES = 64 * 1024

/** Yields paths, each ended by a zero byte, relative to the root. */
async function* toLines(paths: readonly string[]): AsyncGenerator<Buffer> {
  let text = ''
  for (const path of paths) {
    text += `.${path}\0`
    if (text.length < LINES_BYTES) continue
    yield Buffer.from(text, 'latin1')
    text = ''
  }
  if (text !== '') yield Buffer.from(text, 'latin1')
}

/** Lists files that the runtime opens when a sandbox starts and that are not ordinary files. */
function listUnsafe({ mark }: StoppedPod, now: FileListing): Promise<string[]> {
  return listUnsafePaths(async (path) => {
    const found = now.get(path)
    if (found === undefined) return undefined
    const isReplaced = path === LOOKUP_SETTINGS && isSince(found.changedAt, mark)
    return { isFile: found.type === 'f' && !isReplaced, isFolder: found.type === FOLDER, bytes: found.bytes }
  })
}

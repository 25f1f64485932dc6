import type { Readable } from 'node:stream'
import { LOOKUP_SETTINGS, listUnsafePaths } from '../kernel/accounts.ts'
import { isAtOrBelow, listWorkspaceRoots, toParentPrefix } from '../kernel/sandbox-path.ts'
import { packUploads } from '../kernel/upload-archive.ts'
import {
  type BaseFilesystem,
  type Mount,
  type SandboxSpec,
  SandboxUnavailable,
  SandboxUnsupported,
} from '../sandbox.ts'
import { type Cluster, MAIN } from './cluster.ts'
import { withExec } from './exec-stream.ts'
import { type FileListing, FOLDER, isSince, type ListedFile, RUNTIME_PATHS, toListedPath } from './listing.ts'
import { type StoppedPod, stoppedPodOf } from './stopped-sandbox.ts'
import { buildScriptCommand, buildToolCommand } from './tools.ts'
import { collectPath, requireFolders, runScript, TRANSFER_TIMEOUT_MS, unpackInto } from './transfer.ts'

/** Limits for files that are collected from a sandbox. */
const COLLECT_CAPS = { files: 200_000, bytes: 4 * 1024 ** 3 }

/** Puts the base filesystem and the uploads into a sandbox in which nothing runs yet. */
export async function fillSandbox(cluster: Cluster, pod: string, spec: SandboxSpec): Promise<void> {
  const { baseFilesystem: base, uploads, image, mounts } = spec
  if (base.kind === 'snapshot') await copySnapshot(cluster, pod, base, image.digest)
  const workspace = base.kind === 'workspace' ? await replaceWorkspace(cluster, pod, base, mounts) : []
  if (workspace.length === 0 && uploads.length === 0) return
  await requireFolders(
    cluster,
    pod,
    uploads.map(({ target }) => target),
  )
  await unpackInto(cluster, { pod, container: MAIN, folder: '/' }, packUploads(workspace, uploads))
}

/** Removes the paths of a workspace from the new sandbox and returns archives of those of the earlier one. */
async function replaceWorkspace(
  cluster: Cluster,
  pod: string,
  { from, paths, without = [] }: Extract<BaseFilesystem, { kind: 'workspace' }>,
  mounts: readonly Mount[],
): Promise<Readable[]> {
  // Other sandboxes use the volumes, which keep their files.
  const volumes = mounts.flatMap(({ kind, target }) => (kind === 'volume' ? [target] : []))
  const roots = listWorkspaceRoots(paths).filter((path) => !isAtOrBelow(path, volumes))
  const earlier = stoppedPodOf(from)
  const archives: Readable[] = []
  for (const path of earlier.isGone() ? [] : roots) {
    const found = await collectPath(earlier.cluster, { pod: earlier.pod, container: MAIN }, path, {
      caps: COLLECT_CAPS,
      prefix: toParentPrefix(path),
      isDropped: (inside) => isAtOrBelow(`/${inside}`, [...without, ...volumes, ...RUNTIME_PATHS]),
    })
    if (found) archives.push(found.tar)
  }
  await runScript(cluster, pod, REMOVE_SCRIPT, roots)
  return archives
}

/**
 * Script that removes paths. Files that the runtime mounts and files in volumes stay. Removed account files are restored by
 * the first process.
 */
const REMOVE_SCRIPT = 'call rm -rf --one-file-system -- "$@" 2> /dev/null; :'

/** Changes of a stopped sandbox that are repeated in the next one. Paths are those of the listings. */
type SnapshotPlan = {
  removedFiles: string[]
  /** Folders, each after those below it. */
  removedFolders: string[]
  copied: string[]
}

/** Plans a snapshot. The paths in `restored` are those that the next sandbox has from the image. */
export function planSnapshot(
  image: FileListing,
  current: FileListing,
  startTime: string,
  restored: readonly string[],
): SnapshotPlan {
  const isCopied = ([path, { type, changedAt }]: [string, ListedFile]): boolean =>
    (isSince(changedAt, startTime) || image.get(path)?.type !== type) &&
    type !== SOCKET &&
    !isAtOrBelow(path, restored) &&
    // A file or link that replaces a parent folder of a restored path is not copied.
    (type === FOLDER || !restored.some((other) => isAtOrBelow(other, [path])))
  const copied = [...current].filter(isCopied).map(([path]) => path)
  const isFolder = (files: FileListing, path: string): boolean => files.get(path)?.type === FOLDER
  const replaced = copied.filter((path) => image.has(path) && isFolder(image, path) !== isFolder(current, path))
  const deleted = [...image.keys()].filter((path) => !current.has(path) && !isAtOrBelow(path, restored))
  const removed = [...replaced, ...deleted]
  return {
    copied,
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
  const current = await earlier.listing()
  const restored = [...without, ...(await listUnsafeFiles(earlier, current)), ...RUNTIME_PATHS].map(toListedPath)
  const plan = planSnapshot(await earlier.imageListing(), current, earlier.startTime, restored)
  await runScript(cluster, pod, buildRemoveScript('rm'), [], toPathChunks(plan.removedFiles))
  await runScript(cluster, pod, buildRemoveScript('rmdir'), [], toPathChunks(plan.removedFolders))
  const { kubernetes, namespace } = earlier.cluster
  const target = { namespace, pod: earlier.pod, container: MAIN }
  const exec = { command: buildScriptCommand(PACK_SCRIPT), timeoutMs: TRANSFER_TIMEOUT_MS }
  await withExec(kubernetes, target, exec, async (source) => {
    for await (const lines of toPathChunks(plan.copied)) await source.write(lines)
    await source.end()
    await unpackInto(cluster, { pod, container: MAIN, folder: '/' }, source.output)
    if ((await source.code) !== 0) throw new SandboxUnavailable('The files of a stopped sandbox could not be read.')
  })
}

/** Builds a script that removes listed paths. It ignores folders that still have files, and files that the runtime mounts. */
const buildRemoveScript = (program: 'rm' | 'rmdir'): string =>
  `call xargs -0 -r ${buildToolCommand(program, ...(program === 'rm' ? ['-f'] : []), '--').join(' ')} 2> /dev/null; :`

/** Script that packs listed paths. `exec` is not used for tar, because the runtime stops sending input when the output is closed. */
const PACK_SCRIPT = `call cat | call tar --create --file=- --directory=/ --format=posix --numeric-owner --sparse --no-recursion --null --verbatim-files-from --files-from=-`

const CHUNK_BYTES = 64 * 1024

/** Yields paths, each ended by a zero byte, relative to the root. */
async function* toPathChunks(paths: readonly string[]): AsyncGenerator<Buffer> {
  let text = ''
  for (const path of paths) {
    text += `.${path}\0`
    if (text.length < CHUNK_BYTES) continue
    yield Buffer.from(text, 'latin1')
    text = ''
  }
  if (text !== '') yield Buffer.from(text, 'latin1')
}

/** Lists files that the runtime opens when a sandbox starts and that are not ordinary files. */
function listUnsafeFiles({ startTime }: StoppedPod, current: FileListing): Promise<string[]> {
  return listUnsafePaths(async (path) => {
    const found = current.get(path)
    if (found === undefined) return undefined
    const isReplaced = path === LOOKUP_SETTINGS && isSince(found.changedAt, startTime)
    return { isFile: found.type === 'f' && !isReplaced, isFolder: found.type === FOLDER, bytes: found.bytes }
  })
}

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { tryProgram } from '../kernel/run-program.ts'
import { STANDARD_PATH } from '../kernel/shell.ts'
import { appendTarEnd } from '../kernel/tar-writer.ts'
import { TRANSFER_TIMEOUT_MS } from './client.ts'
import type { DockerEngine } from './engine.ts'

/** Folders of a container's files on the engine's machine: its changes, and the layers below them. Readable by root. */
export type ContainerLayers = { upper: string; lower: string }

/** Exit codes of the script below. */
const MOUNT_FAILED = 43
const PATH_NOT_FOUND = 44
/**
 * Exit codes with which mount, the shell or tar report a failure. A tar whose output was closed early ends by a signal
 * instead.
 */
const FAILURES = [MOUNT_FAILED, 1, 2, 126, 127]

/**
 * Mounts the layers and writes a path as a tar. No race: the container is stopped, so a checked path cannot become a
 * link.
 */
const READ_SCRIPT = `mount -t overlay overlay -o "ro,lowerdir=$1" "$2" || exit ${MOUNT_FAILED}
cd "$2" && shift 2
while [ $# -gt 1 ]; do
  if [ -L "$1" ] || [ ! -d "$1" ]; then exit ${PATH_NOT_FOUND}; fi
  cd -- "$1" && shift
done
if [ ! -e "$1" ] && [ ! -L "$1" ]; then exit ${PATH_NOT_FOUND}; fi
exec tar -c -f - --format=pax --numeric-owner -- "$1"`

/** Result of reading layers. `value` is complete only when `kind` is `read`. */
type LayersResult<T> = { kind: 'read' | 'not_found' | 'failed'; value: T }

/**
 * Reads files of a stopped container without the engine, which needs several times the CPU time for it. The
 * overlay is mounted in a private mount namespace, which ends with the process.
 */
export async function readLayers<T>(
  { folder }: Pick<DockerEngine, 'folder'>,
  { upper, lower }: ContainerLayers,
  parts: string[],
  use: (tar: Readable) => Promise<T>,
): Promise<LayersResult<T>> {
  const mountPoint = join(folder, 'mount')
  await mkdir(mountPoint, { recursive: true })
  const args = [
    '--mount',
    '--propagation',
    'private',
    'sh',
    '-c',
    READ_SCRIPT,
    'read',
    `${upper}:${lower}`,
    mountPoint,
    ...parts,
  ]
  const child = spawn('unshare', args, { env: { PATH: STANDARD_PATH }, stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = once(child, 'close').then(([code]): number | null => code)
  const timer = setTimeout(() => void child.kill('SIGKILL'), TRANSFER_TIMEOUT_MS)
  // Piped at once: when a child ends, Node discards output that has no reader yet.
  const tar = child.stdout.pipe(new PassThrough())
  try {
    const value = await use(tar)
    child.stdout.destroy() // `use` may have stopped before the end.
    const code = await ended
    if (code === PATH_NOT_FOUND) return { kind: 'not_found', value }
    return { kind: FAILURES.includes(code ?? 0) ? 'failed' : 'read', value }
  } finally {
    clearTimeout(timer)
    child.kill('SIGKILL')
  }
}

/** Depth from which folders are moved up. */
const DEPTH_MAX = 500
const FLATTEN_SECONDS = '60'
/** Each pass searches only the folders that the pass before has moved, so that the time stays linear in the depth. */
const FLATTEN_SCRIPT = `top=$1
while next=$(mktemp -d -p "$1"); do
  find "$top" -xdev -mindepth ${DEPTH_MAX} -maxdepth ${DEPTH_MAX} -type d -prune \
    -execdir sh -c 'mv -- "$2" "$(mktemp -d -p "$1")"' move "$next" {} ';'
  rmdir "$next" 2> /dev/null && exit
  top=$next
done`

/**
 * Moves deeply nested folders of a stopped container up. The engine keeps every folder of a path open while it removes a
 * container, and refuses to remove one that is nested deeper than the number of files that it may open.
 */
export async function flattenFolders({ upper }: ContainerLayers): Promise<void> {
  await tryProgram('timeout', ['-s', 'KILL', FLATTEN_SECONDS, 'sh', '-c', FLATTEN_SCRIPT, 'flatten', upper])
}

/**
 * Writes an archive into a container that has not started, at paths that its image does not have. The archive must be
 * trusted. Returns false if tar failed.
 */
export async function writeToUpper({ upper }: ContainerLayers, tar: Readable): Promise<boolean> {
  const args = ['-x', '-p', '--numeric-owner', '-C', upper, '-f', '-']
  const child = spawn('tar', args, { env: { PATH: STANDARD_PATH }, stdio: ['pipe', 'ignore', 'ignore'] })
  const closed = once(child, 'close')
  const timer = setTimeout(() => void child.kill('SIGKILL'), TRANSFER_TIMEOUT_MS)
  try {
    await pipeline(appendTarEnd(tar), child.stdin)
    const [code] = await closed
    return code === 0
  } finally {
    clearTimeout(timer)
  }
}

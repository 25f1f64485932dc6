import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { TOOLS_PATH } from '../kernel/namespace-process.ts'
import { tarEnd } from '../kernel/tar-writer.ts'
import { TRANSFER_MS } from './client.ts'
import type { DockerEngine } from './engine.ts'

/** Folders of a container's files on the engine's machine: its changes, and the layers below them. Readable by root. */
export type ContainerLayers = { upper: string; lower: string }

const NO_MOUNT = 43
const NOTHING_THERE = 44
/** Exit codes of mount, the shell and tar. A tar whose output is closed ends by a signal. */
const FAILURES = [NO_MOUNT, 1, 2, 126, 127]

/** Nothing runs in the container, so a path that was checked to be no link cannot become one. */
const READ = `mount -t overlay overlay -o "ro,lowerdir=$1" "$2" || exit ${NO_MOUNT}
cd "$2" && shift 2
while [ $# -gt 1 ]; do
  if [ -L "$1" ] || [ ! -d "$1" ]; then exit ${NOTHING_THERE}; fi
  cd -- "$1" && shift
done
if [ ! -e "$1" ] && [ ! -L "$1" ]; then exit ${NOTHING_THERE}; fi
exec tar -c -f - --format=pax --numeric-owner -- "$1"`

/** Result of reading layers. `value` is complete only when `kind` is `read`. */
export type LayerReading<T> = { kind: 'read' | 'nothing' | 'unable'; value: T }

/**
 * Reads files of a stopped container without the engine, which takes several times the processor time for it. The
 * overlay is mounted in a private mount namespace, which ends with the process.
 */
export async function readLayers<T>(
  { folder }: Pick<DockerEngine, 'folder'>,
  { upper, lower }: ContainerLayers,
  parts: string[],
  use: (tar: Readable) => Promise<T>,
): Promise<LayerReading<T>> {
  const place = join(folder, 'mount')
  await mkdir(place, { recursive: true })
  const args = ['--mount', '--propagation', 'private', 'sh', '-c', READ, 'read', `${upper}:${lower}`, place, ...parts]
  const child = spawn('unshare', args, { env: { PATH: TOOLS_PATH }, stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = once(child, 'close').then(([code]): number | null => code)
  const clock = setTimeout(() => void child.kill('SIGKILL'), TRANSFER_MS)
  // Piped at once: when a child ends, Node discards output that has no reader yet.
  const tar = child.stdout.pipe(new PassThrough())
  try {
    const value = await use(tar)
    child.stdout.destroy() // it may have had enough
    const code = await ended
    if (code === NOTHING_THERE) return { kind: 'nothing', value }
    return { kind: FAILURES.includes(code ?? 0) ? 'unable' : 'read', value }
  } finally {
    clearTimeout(clock)
    child.kill('SIGKILL')
  }
}

/**
 * Writes an archive into a container that has not started, at paths that its image does not have. The archive must be
 * trusted.
 */
export async function writeUpper({ upper }: ContainerLayers, tar: Readable): Promise<boolean> {
  const args = ['-x', '-p', '--numeric-owner', '-C', upper, '-f', '-']
  const child = spawn('tar', args, { env: { PATH: TOOLS_PATH }, stdio: ['pipe', 'ignore', 'ignore'] })
  const closed = once(child, 'close')
  const clock = setTimeout(() => void child.kill('SIGKILL'), TRANSFER_MS)
  try {
    await pipeline(ended(tar), child.stdin)
    const [code] = await closed
    return code === 0
  } finally {
    clearTimeout(clock)
  }
}

/** Also when nothing passed the filter. */
async function* ended(tar: Readable): AsyncGenerator<Buffer> {
  yield* tar
  yield tarEnd()
}

import { access, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { watchFolders } from '../kernel/disk.ts'
import { type BuildLimits, SandboxUnavailable } from '../sandbox.ts'
import type { ImageStore } from './image-store.ts'

type BuildDisk = {
  store: ImageStore
  limits: BuildLimits
  processes: () => Promise<number[]>
  signal: AbortSignal
}

/** Runs a build, and aborts it when the layers that it writes to outgrow its limit. The builder may add layers it knows of. */
export async function withBuildDisk<T>(
  { store, limits, processes, signal }: BuildDisk,
  build: (options: { signal: AbortSignal; layers: string[] }) => Promise<T>,
): Promise<T> {
  const layers: string[] = []
  const full = new AbortController()
  const look = async (): Promise<number[]> => {
    const pids = await processes()
    for (const layer of await listLayers(store, pids)) if (!layers.includes(layer)) layers.push(layer)
    return pids
  }
  const watched = watchFolders({ folders: layers, maxMb: limits.diskMb, processes: look }, () =>
    full.abort(new SandboxUnavailable(`The build wrote more than ${limits.diskMb} MiB.`)),
  )
  try {
    return await build({ signal: AbortSignal.any([signal, full.signal]), layers })
  } catch (error) {
    throw full.signal.aborted && !signal.aborted ? full.signal.reason : error
  } finally {
    watched.stop()
  }
}

/** Places that the paths of a mount may be relative to. */
const BASES = ['', 'buildah/overlay']

/** Lists the writable layers of the root filesystems that processes of a build have. */
async function listLayers({ folder }: ImageStore, pids: number[]): Promise<string[]> {
  const tables = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => '')))
  const named = tables.flatMap((table) => [...table.matchAll(/[ ,]upperdir=([^ ,]+)/g)].map(([, path = '']) => path))
  const candidates = [...new Set(named)].flatMap((path) => BASES.map((base) => resolve(join(folder, base), path)))
  const own = [...new Set(candidates)].filter((path) => path.startsWith(`${folder}/`))
  const there = await Promise.all(
    own.map((path) =>
      access(path).then(
        () => [path],
        () => [],
      ),
    ),
  )
  return there.flat()
}

import { createHash, randomUUID } from 'node:crypto'
import { access, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { type Dockerfile, readDockerfile } from '../../harbor/dockerfile.ts'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import { createCgroup, listAllCgroupFolders, listCgroupFolders, listProcesses, removeCgroup } from '../kernel/cgroup.ts'
import { watchFolders } from '../kernel/disk.ts'
import { refuseDangers, toClassicDockerfile } from '../kernel/dockerfile.ts'
import { buildOnce, computeTreeDigest } from '../kernel/prepare-image.ts'
import { quote } from '../kernel/shell.ts'
import {
  type BuildLimits,
  type ImageSource,
  type PrepareOptions,
  type SandboxLimits,
  SandboxUnavailable,
} from '../sandbox.ts'
import type { NamedBase } from './base-images.ts'
import { findCompleteBuild, type ImageStore, type StoredImage, saveBuild } from './image-store.ts'
import type { Host } from './machine.ts'
import { createRecord, removeRecord } from './record.ts'

export type DockerfileContext = Extract<ImageSource, { kind: 'dockerfile' }>

/** A Dockerfile in the syntax that every builder knows. Nothing in it gives access to this machine. */
export type CheckedDockerfile = { dockerfile: Dockerfile; text: string }

/** Reads and checks a Dockerfile. Nothing is built or pulled. */
export async function readCheckedDockerfile(source: DockerfileContext): Promise<CheckedDockerfile> {
  const original = await readFile(join(source.context, source.dockerfile), 'utf8')
  const parsed = readDockerfile(original)
  refuseDangers(parsed, source.args)
  const { text } = toClassicDockerfile(original, parsed, { keepCopies: true })
  return { dockerfile: readDockerfile(text), text }
}

/** Computes the key of a build from everything that its result depends on. */
export async function computeBuildKey(
  text: string,
  { context, target, args }: DockerfileContext,
  bases: NamedBase[],
): Promise<string> {
  const settings = target === null && Object.keys(args).length === 0 ? [] : [target, args]
  const parts = [
    text,
    await computeTreeDigest(context),
    ...settings,
    ...bases.flatMap(({ name, image }) => [name, image.digest]),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/** The parts of this machine that a build needs. Providers without local sandboxes build too. */
export type BuildHost = Pick<Host, 'store' | 'cgroups'>

type LimitedOptions = PrepareOptions & {
  /** Shell code before a command that moves it into the cgroup of the build: empty, or ends with `&&`. */
  cgroupPrefix: string
  /** Folders whose size is limited. The builder adds the ones that it writes to. */
  layers: string[]
}

/** Runs a builder within the limits, once for each key, and stores the image. */
export function buildWithLimits(
  host: BuildHost,
  key: string,
  options: PrepareOptions,
  build: (options: LimitedOptions) => Promise<StoredImage>,
): Promise<StoredImage> {
  const { store } = host
  const { limits = DEFAULT_LIMITS, signal } = options
  const buildAndSave = async () => {
    const built = await withBuildCgroup(host, limits, ({ cgroupPrefix, processes }) =>
      withBuildDisk({ store, limits, processes, signal }, (disk) => build({ ...options, ...disk, cgroupPrefix })),
    )
    await saveBuild(store, key, built)
    return built
  }
  return buildOnce(join(store.folder, key), { find: () => findCompleteBuild(store, key), build: buildAndSave, signal })
}

/** Time after which other processes remove the cgroup of a build, even if its owner may be alive. */
const BUILD_LIFETIME_MS = 24 * 60 * 60 * 1000

/** Returns the limits of the cgroup of a build. Its time is limited by `prepareInTime`, its disk by `withBuildDisk`. */
const toCgroupLimits = (limits: BuildLimits): SandboxLimits => ({
  ...DEFAULT_LIMITS,
  ...limits,
  pids: 4096,
  outputBytes: 0,
  seconds: 0,
})

/** Cgroup of a build. `processes` lists its processes. */
type BuildCgroup = Pick<LimitedOptions, 'cgroupPrefix'> & { processes: () => Promise<number[]> }

/** Runs a build in a cgroup. Processes that are left in it at the end are killed. */
async function withBuildCgroup<T>(
  host: BuildHost,
  limits: BuildLimits,
  work: (cgroup: BuildCgroup) => Promise<T>,
): Promise<T> {
  const layout = host.cgroups
  if (layout === undefined) return work({ cgroupPrefix: '', processes: async () => [] })
  const id = `build-${randomUUID()}`
  const records = join(host.store.folder, 'records')
  const record = await createRecord(records, {
    id,
    deadline: Date.now() + BUILD_LIFETIME_MS,
    cgroups: listAllCgroupFolders(layout, id),
  })
  try {
    await createCgroup(layout, id, toCgroupLimits(limits), 0)
    const folders = listCgroupFolders(layout, id)
    const steps = folders.map((folder) => `echo 0 > ${quote(join(folder, 'cgroup.procs'))} && `)
    return await work({ cgroupPrefix: steps.join(''), processes: () => listProcesses(folders[0] ?? '') })
  } finally {
    await removeCgroup(record.cgroups)
    await removeRecord(records, id)
  }
}

type BuildDisk = {
  store: ImageStore
  limits: BuildLimits
  processes: () => Promise<number[]>
  signal: AbortSignal
}

/** Runs a build and aborts it when its layers exceed the disk limit. The builder adds the layers that it writes to. */
async function withBuildDisk<T>(
  { store, limits, processes, signal }: BuildDisk,
  build: (options: { signal: AbortSignal; layers: string[] }) => Promise<T>,
): Promise<T> {
  const layers: string[] = []
  const full = new AbortController()
  const refreshLayers = async (): Promise<number[]> => {
    const pids = await processes()
    for (const layer of await listLayers(store, pids)) if (!layers.includes(layer)) layers.push(layer)
    return pids
  }
  const watched = watchFolders({ folders: layers, maxMb: limits.diskMb, processes: refreshLayers }, () =>
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

/** Folders that the paths of a mount may be relative to. */
const MOUNT_BASES = ['', 'buildah/overlay']

/** Lists the writable layers of the root filesystems that processes of a build have. */
async function listLayers({ folder }: ImageStore, pids: number[]): Promise<string[]> {
  const tables = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/mountinfo`, 'utf8').catch(() => '')))
  const upperFolders = tables.flatMap((table) =>
    [...table.matchAll(/[ ,]upperdir=([^ ,]+)/g)].map(([, path = '']) => path),
  )
  const candidates = [...new Set(upperFolders)].flatMap((path) =>
    MOUNT_BASES.map((base) => resolve(join(folder, base), path)),
  )
  const inStore = [...new Set(candidates)].filter((path) => path.startsWith(`${folder}/`))
  const existing = await Promise.all(
    inStore.map((path) =>
      access(path).then(
        () => [path],
        () => [],
      ),
    ),
  )
  return existing.flat()
}

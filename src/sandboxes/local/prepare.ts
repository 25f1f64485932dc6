import { createHash, randomUUID } from 'node:crypto'
import { access, copyFile, lstat, mkdir, readdir, readFile, readlink, stat, symlink } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { readDockerfile } from '../../harbor/dockerfile.ts'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import { ignoreCode } from '../../platform/errors.ts'
import { leadsToPrivateRegistry } from '../../platform/outbound/image-registry.ts'
import { resolveName } from '../../platform/outbound/public-host.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { allCgroupFolders, cgroupFolders, createCgroup, listProcesses, removeCgroup } from '../kernel/cgroup.ts'
import { watchFolders } from '../kernel/disk.ts'
import { listBaseNames, refuseDangers, toClassicDockerfile } from '../kernel/dockerfile.ts'
import { runProgram } from '../kernel/run-program.ts'
import { quote } from '../kernel/shell.ts'
import { treeDigest } from '../kernel/tree-digest.ts'
import {
  type BuildLimits,
  type Image,
  type ImageSource,
  type PrepareOptions,
  type SandboxLimits,
  SandboxUnavailable,
  SandboxUnsupported,
} from '../sandbox.ts'
import { buildWithBuildah, hasBuildah, pullWithBuildah } from './buildah.ts'
import { buildBuiltIn } from './built-in.ts'
import {
  createLayer,
  DEFAULT_SETTINGS,
  findBuild,
  findImage,
  type ImageStore,
  nameImage,
  normalizeImageName,
  type StoredImage,
  saveBuild,
  saveImage,
} from './image-store.ts'
import type { Host } from './machine.ts'
import { createRecord, removeRecord } from './record.ts'

type PrepareContext = {
  host: Host
  allowHostBase: boolean
  /** False forces the built-in builder even where buildah is installed. */
  useBuildah: boolean
  buildHosts: readonly AllowedHost[]
}

type LocalPrebuilt = Extract<ImageSource, { kind: 'prebuilt' }>
type LocalDockerfile = Extract<ImageSource, { kind: 'dockerfile' }>

/** Prepares an image: an imported name, or a Dockerfile, built once per content. */
export async function prepareImage(
  context: PrepareContext,
  source: ImageSource,
  options: PrepareOptions,
): Promise<Image> {
  const timeout = AbortSignal.timeout(options.timeoutSec * 1000)
  const timed = { ...options, signal: AbortSignal.any([options.signal, timeout]) }
  try {
    if (source.kind === 'dockerfile') return await buildDockerfile(context, source, timed)
    return await addFiles(context.host, await resolvePrebuilt(context, source.name, timed), source, timed)
  } catch (error) {
    if (!timeout.aborted || options.signal.aborted) throw error
    throw new SandboxUnavailable(`The image was not ready after ${options.timeoutSec} seconds.`, { cause: error })
  }
}

async function resolvePrebuilt(context: PrepareContext, name: string, options: PrepareOptions): Promise<StoredImage> {
  const { host, useBuildah, allowHostBase, buildHosts } = context
  return resolveBase(
    { host, withBuildah: await canUseBuildah(host, useBuildah), allowHostBase, buildHosts },
    name,
    options,
  )
}

/** Adds the files of the folder to the working folder of a prebuilt image. */
async function addFiles(
  host: Host,
  base: StoredImage,
  { folder: context, workdir }: LocalPrebuilt,
  options: PrepareOptions,
): Promise<StoredImage> {
  if (context === null) return base
  const files = (await readdir(context).catch(() => [])).filter((name) => name !== '.gitkeep')
  if (files.length === 0) return base
  const text = `FROM ${base.digest}\nWORKDIR ${workdir ?? base.workdir}\nCOPY . .\n`
  const recipe: LocalDockerfile = { kind: 'dockerfile', context, dockerfile: '', target: null, args: {} }
  const key = await computeBuildKey(text, recipe, [])
  const known = await findCompleteBuild(host.store, key)
  if (known) return known
  const built = await buildBuiltIn(
    host,
    { ...recipe, dockerfile: readDockerfile(text), key, base },
    { ...options, entering: '', buildHosts: [], layers: [] },
  )
  await saveBuild(host.store, key, built)
  return built
}

/** Reports whether buildah can be used. It needs more rights than an ordinary user has in one user namespace. */
const canUseBuildah = async ({ rootless }: Host, useBuildah: boolean): Promise<boolean> =>
  useBuildah && !rootless && (await hasBuildah())

const imageMissing = (name: string, cause?: unknown): SandboxUnavailable =>
  new SandboxUnavailable(
    `Image ${normalizeImageName(name)} not found${cause === undefined ? '' : ', and it could not be pulled'}. Import one: assay images import <folder or tar> --name ${name}. Or set ASSAY_ALLOW_HOST_BASE=1 to use the files of this machine in its place.`,
    { cause },
  )

async function buildDockerfile(
  { host, ...context }: PrepareContext,
  recipe: LocalDockerfile,
  options: PrepareOptions,
): Promise<StoredImage> {
  const { store } = host
  const original = await readFile(join(recipe.context, recipe.dockerfile), 'utf8')
  const parsed = readDockerfile(original)
  refuseDangers(parsed, recipe.args)
  const { text } = toClassicDockerfile(original, parsed, { keepCopies: true })
  const dockerfile = readDockerfile(text)
  const withBuildah = await canUseBuildah(host, context.useBuildah)
  const { buildHosts, allowHostBase } = context
  const sources = { host, withBuildah, allowHostBase, buildHosts }
  const bases = await resolveBases(sources, listBaseNames(dockerfile, recipe), options)
  const hasHostBase = bases.some(({ image }) => image.base === 'host-base')
  const key = await computeBuildKey(text, recipe, bases)
  const [base] = bases
  const { limits = DEFAULT_LIMITS, signal } = options
  const buildAndSave = async () => {
    const built = await withBuildCgroup(host, limits, ({ entering, processes }) =>
      withBuildDisk({ store, limits, processes, signal }, (disk) => {
        const buildOptions = { ...options, ...disk, entering, buildHosts }
        return withBuildah && !hasHostBase
          ? buildWithBuildah(store, { ...recipe, dockerfile, text, key, bases }, buildOptions)
          : buildBuiltIn(host, { ...recipe, dockerfile, key, base: requireBase(base?.image) }, buildOptions)
      }),
    )
    await saveBuild(store, key, built)
    return built
  }
  return buildOnce(join(store.folder, key), { find: () => findCompleteBuild(store, key), buildAndSave, signal })
}

/** Builds that are under way in this process. */
const RUNNING_BUILDS = new Map<string, Promise<StoredImage>>()

type SharedBuild = {
  find: () => Promise<StoredImage | undefined>
  buildAndSave: () => Promise<StoredImage>
  signal: AbortSignal
}

/** Builds an image once, also for concurrent requests. If another builder of it is canceled, this one builds it. */
async function buildOnce(id: string, build: SharedBuild): Promise<StoredImage> {
  const known = await build.find()
  if (known) return known
  build.signal.throwIfAborted()
  const running = RUNNING_BUILDS.get(id)
  if (running) {
    await running.catch(() => {})
    return buildOnce(id, build)
  }
  const building = build.buildAndSave()
  RUNNING_BUILDS.set(id, building)
  try {
    return await building
  } finally {
    RUNNING_BUILDS.delete(id)
  }
}

function requireBase(image: StoredImage | undefined): StoredImage {
  if (image) return image
  throw new SandboxUnsupported('FROM scratch needs buildah.')
}

type NamedBase = { name: string; image: StoredImage }

type BaseSources = { host: Host; withBuildah: boolean; allowHostBase: boolean; buildHosts: readonly AllowedHost[] }

async function resolveBases(sources: BaseSources, names: string[], options: PrepareOptions): Promise<NamedBase[]> {
  return Promise.all(names.map(async (name) => ({ name, image: await resolveBase(sources, name, options) })))
}

/** Resolves a base image: imported, the system files of this machine if allowed, or pulled. Throws if there is none. */
async function resolveBase(sources: BaseSources, name: string, options: PrepareOptions): Promise<StoredImage> {
  const { store } = sources.host
  const known = await findImage(store, name)
  if (known) return known
  if (sources.allowHostBase) return prepareHostBase(store, options.signal)
  return pull(sources, name, options)
}

async function pull(
  { host: { store }, withBuildah, buildHosts }: BaseSources,
  name: string,
  options: PrepareOptions,
): Promise<StoredImage> {
  if (!withBuildah) throw imageMissing(name)
  if (await leadsToPrivateRegistry(name, buildHosts, resolveName))
    throw imageMissing(name, new Error('Registries in private networks must be listed in ASSAY_BUILD_HOSTS.'))
  const image = await pullWithBuildah(store, name, options).catch((error: unknown) => {
    throw error instanceof SandboxUnsupported ? error : imageMissing(name, error)
  })
  await nameImage(store, name, image)
  return image
}

async function computeBuildKey(
  text: string,
  { context, target, args }: LocalDockerfile,
  bases: NamedBase[],
): Promise<string> {
  const settings = target === null && Object.keys(args).length === 0 ? [] : [target, args]
  const parts = [
    text,
    await treeDigest(context),
    ...settings,
    ...bases.flatMap(({ name, image }) => [name, image.digest]),
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex')
}

/** Finds a build whose layers all exist. They may have been removed by hand. */
async function findCompleteBuild(store: ImageStore, key: string): Promise<StoredImage | undefined> {
  const image = await findBuild(store, key)
  const layers = image?.layers.map((layer) => stat(join(store.folder, layer)).catch(() => undefined)) ?? []
  return (await Promise.all(layers)).every((stats) => stats?.isDirectory()) ? image : undefined
}

const DAY_MS = 24 * 60 * 60 * 1000

/** Limits of the cgroup of a build. Its time is limited by `prepareImage` and its disk by `withBuildDisk`. */
const cgroupLimits = (limits: BuildLimits): SandboxLimits => ({
  ...DEFAULT_LIMITS,
  ...limits,
  pids: 4096,
  outputBytes: 0,
  seconds: 0,
})

/** Cgroup of a build. `entering` is shell code that enters it; `processes` lists its processes. */
type BuildCgroup = { entering: string; processes: () => Promise<number[]> }

/** Runs a build in a cgroup. Processes that are left in it at the end are killed. */
async function withBuildCgroup<T>(
  host: Host,
  limits: BuildLimits,
  work: (cgroup: BuildCgroup) => Promise<T>,
): Promise<T> {
  const layout = host.cgroups
  if (layout === undefined) return work({ entering: '', processes: async () => [] })
  const id = `build-${randomUUID()}`
  const records = join(host.store.folder, 'records')
  const record = await createRecord(records, {
    id,
    deadline: Date.now() + DAY_MS,
    cgroups: allCgroupFolders(layout, id),
  })
  try {
    await createCgroup(layout, id, cgroupLimits(limits), 0)
    const folders = cgroupFolders(layout, id)
    const steps = folders.map((folder) => `echo 0 > ${quote(join(folder, 'cgroup.procs'))} && `)
    return await work({ entering: steps.join(''), processes: () => listProcesses(folders[0] ?? '') })
  } finally {
    await removeCgroup(record.cgroups)
    await removeRecord(records, id)
  }
}

/** System files that programs need to start. None of them is private. */
const SYSTEM_FOLDERS = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64', '/libx32']
const ETC_FILES =
  'passwd group nsswitch.conf ld.so.cache ld.so.conf os-release debian_version protocols services localtime mime.types'.split(
    ' ',
  )
const ETC_FOLDERS = ['alternatives', 'ld.so.conf.d', 'ssl/certs', 'python3', 'perl']
const EMPTY_FOLDERS = 'dev proc sys run tmp var/tmp var/lib root home mnt opt srv etc'.split(' ')

/**
 * Returns a base image of this machine's programs, read-only. It is created again when their files have changed. The
 * operator must allow it, and results state that it was used.
 */
async function prepareHostBase(store: ImageStore, signal: AbortSignal): Promise<StoredImage> {
  const binds: string[] = []
  const links: [string, string][] = []
  for (const path of SYSTEM_FOLDERS) {
    const stats = await lstat(path).catch(() => undefined)
    if (stats?.isSymbolicLink()) links.push([path, await readlink(path)])
    if (stats?.isDirectory()) binds.push(path)
  }
  const inside = binds.find((path) => `${store.folder}/`.startsWith(`${path}/`))
  if (inside) throw new SandboxUnsupported(`${inside} contains the data folder, so it cannot be part of a base image.`)

  const parts = [binds, links, await listVersions([...ETC_FILES, ...ETC_FOLDERS])]
  const key = createHash('sha256').update(JSON.stringify(parts)).digest('hex')
  const buildAndSave = async () => {
    const image = await createHostBase(store, binds, links)
    await saveBuild(store, key, image)
    return image
  }
  return buildOnce(join(store.folder, key), { find: () => findCompleteBuild(store, key), buildAndSave, signal })
}

/** Lists the files of `/etc` below the names, each with a fingerprint that changes with its content or rights. */
async function listVersions(names: readonly string[]): Promise<string[]> {
  const versions = names.map(async (name): Promise<string[]> => {
    const path = join('/etc', name)
    const stats = await lstat(path).catch(ignoreCode('ENOENT'))
    if (!stats) return []
    const within = stats.isDirectory() ? await readdir(path) : []
    const inner = await listVersions(within.sort().map((each) => join(name, each)))
    return [`${name} ${stats.ino} ${stats.mode} ${stats.size} ${stats.ctimeMs}`, ...inner]
  })
  return (await Promise.all(versions)).flat()
}

async function createHostBase(store: ImageStore, binds: string[], links: [string, string][]): Promise<StoredImage> {
  const layer = await createLayer(store, async (draft) => {
    for (const path of [...EMPTY_FOLDERS, ...binds]) await mkdir(join(draft, path), { recursive: true, mode: 0o755 })
    for (const [path, target] of links) await symlink(target, join(draft, path))
    await runProgram('chmod', ['1777', join(draft, 'tmp'), join(draft, 'var/tmp')])
    for (const name of ETC_FILES)
      await copyFile(join('/etc', name), join(draft, 'etc', name)).catch(ignoreCode('ENOENT'))
    for (const name of ETC_FOLDERS) await copyFolder(join('/etc', name), join(draft, 'etc', name))
  })
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }
  return saveImage(store, { ...DEFAULT_SETTINGS, layers: [layer], binds, env, base: 'host-base' })
}

async function copyFolder(source: string, target: string): Promise<void> {
  const stats = await lstat(source).catch(ignoreCode('ENOENT'))
  if (!stats?.isDirectory()) return
  await mkdir(dirname(target), { recursive: true })
  await runProgram('cp', ['-a', '-T', '--', source, target])
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

import { closeSync, openSync, readSync } from 'node:fs'
import { access, constants, mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { ignoreCode } from '../../platform/errors.ts'
import { type SandboxLimits, SandboxUnavailable } from '../sandbox.ts'
import { sendKill } from './ownership.ts'

/**
 * Folders in which this process creates cgroups: one per controller (version 1) or one for all (version 2), which is the
 * root of the tree or a cgroup that was delegated to this process.
 */
export type CgroupLayout =
  | { version: 1; memory: string; pids: string; cpu: string; all: string[] }
  | { version: 2; unified: string }

const CONTROLLERS = ['memory', 'pids', 'cpu'] as const
const CPU_PERIOD_US = 100_000
/** Smallest quota that the kernel accepts. */
const CPU_QUOTA_MIN_US = 1000
const KILL_TIMEOUT_MS = 5000

/** Finds the cgroup folders. Returns undefined if this process may not create cgroups. */
export async function findLayout(): Promise<CgroupLayout | undefined> {
  const layout = parseLayout(await readFile('/proc/self/mountinfo', 'utf8'))
  if (layout === undefined) return undefined
  if (await canCreateCgroup(layout)) return layout
  if (layout.version === 1) return undefined
  const delegated = await enterDelegated(layout.unified).catch(() => undefined)
  return delegated && (await canCreateCgroup(delegated)) ? delegated : undefined
}

/** Name of the cgroup for this process itself, beside those of its sandboxes. */
const OWN_CGROUP = 'assay-itself'
/** Maximum number of attempts to move all processes. */
const MOVES_MAX = 20

/**
 * Finds the cgroup that was delegated to this process, as by `Delegate=yes` in a unit of systemd. The kernel allows limits
 * only in cgroups whose parent has no processes, so all processes of the delegated cgroup are moved into a child of it.
 */
async function enterDelegated(unified: string): Promise<CgroupLayout | undefined> {
  const path = parseDelegatedPath(await readFile('/proc/self/cgroup', 'utf8'))
  if (path === undefined) return undefined
  const folder = join(unified, path)
  const available = (await readFile(join(folder, 'cgroup.controllers'), 'utf8')).trim().split(' ')
  if (!CONTROLLERS.every((controller) => available.includes(controller))) return undefined
  await access(join(folder, 'cgroup.subtree_control'), constants.W_OK)
  const target = join(folder, OWN_CGROUP)
  await mkdir(target, { recursive: true })
  for (let moves = 0; moves < MOVES_MAX; moves += 1) {
    const pids = await listProcesses(folder)
    if (pids.length === 0) return { version: 2, unified: folder }
    // Processes may end meanwhile, or start others.
    for (const pid of pids) await writeFile(join(target, 'cgroup.procs'), String(pid)).catch(ignoreCode('ESRCH'))
  }
  return undefined
}

/**
 * Returns the cgroup that may have been delegated to a process, from its `/proc/<pid>/cgroup`: the one of its service or
 * container. Those of login sessions and terminals also contain processes that are not ours to move.
 */
export function parseDelegatedPath(text: string): string | undefined {
  const own = /^0::(.*)$/m.exec(text)?.[1]
  if (own === undefined) return undefined
  const path = basename(own) === OWN_CGROUP ? dirname(own) : own
  return path === '/' || path.endsWith('.service') ? path : undefined
}

/** Index of the mount point in a line of a mount table. */
const MOUNT_POINT_FIELD = 4

/** Finds the cgroup folders in a mount table. Pure, so that both cgroup versions can be tested on any machine. */
export function parseLayout(mountinfo: string): CgroupLayout | undefined {
  const mounts = mountinfo.split('\n').map((text) => text.split(' '))
  const findMount = (type: string, option: string): string | undefined =>
    mounts.find((fields) => {
      const [mountType, , options = ''] = fields.slice(fields.indexOf('-') + 1)
      return mountType === type && (option === '' || options.split(',').includes(option))
    })?.[MOUNT_POINT_FIELD]

  const [memory, pids, cpu] = CONTROLLERS.map((controller) => findMount('cgroup', controller))
  const all = mounts
    .filter((fields) => fields[fields.indexOf('-') + 1]?.startsWith('cgroup'))
    .flatMap((fields) => fields[MOUNT_POINT_FIELD] ?? [])
  if (memory && pids && cpu) return { version: 1, memory, pids, cpu, all }
  const unified = findMount('cgroup2', '')
  return unified === undefined ? undefined : { version: 2, unified }
}

const canCreateCgroup = (layout: CgroupLayout): Promise<boolean> =>
  tryToCreateCgroup(layout).then(
    () => true,
    () => false,
  )

/** Creates a cgroup and removes it. Throws if that is not allowed or a controller is missing. */
async function tryToCreateCgroup(layout: CgroupLayout): Promise<void> {
  const folders = listCgroupFolders(layout, `try-${process.pid}`)
  await enableControllers(layout)
  try {
    for (const folder of folders) await mkdir(folder, { recursive: true })
    const files =
      layout.version === 1 ? folders : CONTROLLERS.map((controller) => join(folders[0] ?? '', `${controller}.max`))
    await Promise.all(files.map((file) => access(file)))
  } finally {
    await Promise.all(folders.map((folder) => rmdir(folder)))
  }
}

/** Enables the limits of cgroups. systemd disables controllers that no unit of it needs, for example at a reload. */
async function enableControllers(layout: CgroupLayout): Promise<void> {
  if (layout.version === 1) return
  const wanted = CONTROLLERS.map((controller) => `+${controller}`).join(' ')
  await writeFile(join(layout.unified, 'cgroup.subtree_control'), wanted)
}

/** Returns the folder of a cgroup in each hierarchy. The cgroup need not exist. */
export function listCgroupFolders(layout: CgroupLayout, id: string): string[] {
  const trees = layout.version === 2 ? [layout.unified] : [layout.pids, layout.memory, layout.cpu]
  return [...new Set(trees)].map((top) => join(top, `assay-${id}`))
}

/** Like `listCgroupFolders`, but in all hierarchies: runc creates the cgroup in each of them. */
export const listAllCgroupFolders = (layout: CgroupLayout, id: string): string[] =>
  layout.version === 2 ? listCgroupFolders(layout, id) : layout.all.map((top) => join(top, `assay-${id}`))

/** Creates a cgroup. `spareProcesses` is the number of additional processes that the runtime needs in it. */
export async function createCgroup(
  layout: CgroupLayout,
  id: string,
  limits: SandboxLimits,
  spareProcesses: number,
): Promise<void> {
  await enableControllers(layout)
  for (const folder of listCgroupFolders(layout, id)) await mkdir(folder)
  for (const [path, value] of listLimitFiles(layout, id, { ...limits, pids: limits.pids + spareProcesses })) {
    await writeFile(path, value).catch((error: NodeJS.ErrnoException) => {
      // Some kernels do not account for swap.
      if (error.code === 'ENOENT' && /swap|memsw/.test(basename(path))) return
      throw new SandboxUnavailable(`The limit ${value} could not be written to ${path}: ${error.message}`)
    })
  }
}

function listLimitFiles(layout: CgroupLayout, id: string, { memoryMb, pids, cpus }: SandboxLimits): [string, string][] {
  const memory = String(memoryMb * 1024 * 1024)
  const quota = String(Math.max(CPU_QUOTA_MIN_US, Math.round(cpus * CPU_PERIOD_US)))
  const name = `assay-${id}`
  return layout.version === 2
    ? [
        [join(layout.unified, name, 'memory.max'), memory],
        [join(layout.unified, name, 'memory.swap.max'), '0'],
        [join(layout.unified, name, 'pids.max'), String(pids)],
        [join(layout.unified, name, 'cpu.max'), `${quota} ${CPU_PERIOD_US}`],
      ]
    : [
        [join(layout.memory, name, 'memory.limit_in_bytes'), memory],
        [join(layout.memory, name, 'memory.memsw.limit_in_bytes'), memory],
        [join(layout.pids, name, 'pids.max'), String(pids)],
        [join(layout.cpu, name, 'cpu.cfs_period_us'), String(CPU_PERIOD_US)],
        [join(layout.cpu, name, 'cpu.cfs_quota_us'), quota],
      ]
}

/** Reads how many processes the kernel killed for exceeding the memory, and how many new ones it refused. */
export async function readLimitHits(
  layout: CgroupLayout | undefined,
  id: string,
): Promise<{ memory: number; pids: number }> {
  if (layout === undefined) return { memory: 0, pids: 0 }
  const name = `assay-${id}`
  const memory =
    layout.version === 2 ? join(layout.unified, name, 'memory.events') : join(layout.memory, name, 'memory.oom_control')
  const pids = join(layout.version === 2 ? layout.unified : layout.pids, name, 'pids.events')
  return { memory: await readCounter(memory, 'oom_kill'), pids: await readCounter(pids, 'max') }
}

async function readCounter(path: string, key: string): Promise<number> {
  // runc removes a cgroup that it failed to use.
  const text = (await readFile(path, 'utf8').catch(ignoreCode('ENOENT'))) ?? ''
  const found = text.split('\n').find((entry) => entry.startsWith(`${key} `))
  return Number(found?.slice(key.length + 1) ?? 0)
}

/** Kills all processes of a cgroup and removes it. A no-op if it does not exist. */
export async function removeCgroup(folders: string[]): Promise<void> {
  const deadline = performance.now() + KILL_TIMEOUT_MS
  for (const folder of folders) {
    while (!(await tryRemove(folder))) {
      if (performance.now() > deadline)
        throw new SandboxUnavailable(`Processes in the cgroup ${folder} could not be killed.`)
      await wait(5)
    }
  }
}

async function tryRemove(folder: string): Promise<boolean> {
  for (const pid of await listProcesses(folder)) sendKill(pid)
  return rmdir(folder).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
  )
}

export async function listProcesses(folder: string): Promise<number[]> {
  const text = await readFile(join(folder, 'cgroup.procs'), 'utf8').catch(() => '')
  return text.split('\n').filter(Boolean).map(Number)
}

/** Counts how often the kernel refused a new process to a container. */
export type RefusedProcesses = { read(): number; stop(): void }

export const NO_REFUSED_PROCESSES: RefusedProcesses = { read: () => 0, stop: () => {} }

const REFUSALS_POLL_MS = 500
/** Minimum time between two reads of the counter. */
const REFUSALS_PAUSE_MS = 2
const COUNTER_BYTES_MAX = 200

/**
 * Opens the counter of the kernel. It disappears some milliseconds after the container's last process, before the engine
 * reports the end. It is therefore read at intervals and whenever output arrives, because a program that cannot fork
 * usually prints an error. Refusals of a program that ends at once without output are missed.
 */
export async function countRefusedProcesses(layout: CgroupLayout, pid: number): Promise<RefusedProcesses> {
  const top = layout.version === 2 ? layout.unified : layout.pids
  const file = join(top, parseCgroupPath(await readFile(`/proc/${pid}/cgroup`, 'utf8'), layout), 'pids.events')
  const descriptor = tryOpen(file)
  if (descriptor === undefined) return NO_REFUSED_PROCESSES
  let refused = 0
  let readAt = 0
  const readLimited = (): number => {
    // Reads are rate-limited, because output may be a flood.
    if (performance.now() - readAt < REFUSALS_PAUSE_MS) return refused
    refused = readOpenCounter(descriptor) ?? refused
    readAt = performance.now()
    return refused
  }
  const timer = setInterval(readLimited, REFUSALS_POLL_MS)
  return {
    read: readLimited,
    stop: () => {
      clearInterval(timer)
      closeSync(descriptor)
    },
  }
}

/** Parses the path of a process's cgroup in the hierarchy of the pids controller. */
export function parseCgroupPath(text: string, layout: Pick<CgroupLayout, 'version'>): string {
  const fields = text.split('\n').map((line) => line.split(':'))
  const hierarchy = fields.find(([number, controllers = '']) =>
    layout.version === 2 ? number === '0' : controllers.split(',').includes('pids'),
  )
  return hierarchy?.slice(2).join(':') ?? '/'
}

function tryOpen(file: string): number | undefined {
  try {
    return openSync(file, 'r')
  } catch {
    return undefined // the process has ended
  }
}

/** Reads synchronously, because the counter may disappear before a thread of Node's pool is free. */
function readOpenCounter(descriptor: number): number | undefined {
  try {
    const buffer = Buffer.alloc(COUNTER_BYTES_MAX)
    const text = buffer.toString('utf8', 0, readSync(descriptor, buffer, 0, COUNTER_BYTES_MAX, 0))
    return Number(/^max (\d+)$/m.exec(text)?.[1] ?? 0)
  } catch {
    return undefined // already removed
  }
}

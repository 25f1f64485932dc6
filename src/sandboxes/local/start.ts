import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'
import { runOnce } from '../../platform/concurrency.ts'
import {
  createCgroup,
  listAllCgroupFolders,
  listCgroupFolders,
  listProcesses,
  readLimitHits,
} from '../kernel/cgroup.ts'
import { combineWatches, type DiskWatch, NO_WATCH, watchDisk, watchFolders } from '../kernel/disk.ts'
import { type SandboxStopReason, toExit } from '../kernel/exit.ts'
import { type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { findProcess, isAlive, killProcess, sendKill, waitForEnd } from '../kernel/ownership.ts'
import { openPorts } from '../kernel/ports.ts'
import {
  type Exit,
  type Mount,
  type Sandbox,
  type SandboxSpec,
  SandboxUnavailable,
  SandboxUnsupported,
} from '../sandbox.ts'
import { copyBaseFiles, createBaseLayers, usesStoreOnly } from './base-filesystem.ts'
import { BWRAP_PROCESSES, launchBwrap } from './bwrap.ts'
import { openControl } from './control.ts'
import { execIn, unpackUploads } from './exec.ts'
import { mountFiles, planFiles, rootOf } from './files.ts'
import { readImage } from './image-store.ts'
import {
  countControlProcesses,
  hasControl,
  type LocalRunningSandbox,
  release,
  type SandboxResources,
} from './launch.ts'
import type { Host } from './machine.ts'
import { buildEnterNetworkArgs, joinNetwork, type LocalNetwork, localNetworkOf, toVolumeFolder } from './network.ts'
import { planLaunch } from './plan-launch.ts'
import { copyOutput } from './process-io.ts'
import { removeSandbox } from './reap.ts'
import { createRecord, updateRecord } from './record.ts'
import { launchRunc } from './runc.ts'
import { createStoppedSandbox, requireStoppedFiles, type StoppedFiles } from './stopped-sandbox.ts'

const launchWith = { bwrap: launchBwrap, runc: launchRunc }
/** Additional processes in the sandbox's cgroup. */
const SPARE_PROCESSES = { bwrap: BWRAP_PROCESSES, runc: 1 }

export async function startSandbox(host: Host, spec: SandboxSpec): Promise<Sandbox> {
  const image = await readImage(host.store, spec.image.digest)
  const listFolders = host.runtime === 'runc' ? listAllCgroupFolders : listCgroupFolders
  const cgroups = host.cgroups === undefined ? [] : listFolders(host.cgroups, spec.id)
  const deadline = Date.now() + spec.limits.seconds * 1000
  const record = await createRecord(join(host.store.folder, 'records'), { id: spec.id, deadline, cgroups })
  const resources: SandboxResources = {
    record,
    files: planFiles(host, spec.id, image.layers, spec.limits.diskMb),
    namespaceProcess: undefined,
    servers: [],
    control: undefined,
    membership: undefined,
  }
  try {
    logStep(host, spec, 'record')
    return await createSandbox(host, spec, resources, image.binds ?? [])
  } catch (error) {
    await release(resources)
    await removeSandbox(host, resources)
    if (error instanceof SandboxUnavailable || error instanceof SandboxUnsupported) throw error
    throw new SandboxUnavailable(`Sandbox ${spec.id} could not be started: ${String(error)}`, { cause: error })
  }
}

/** Logs a step of a sandbox's start. Tests kill the process at each of these steps. */
const logStep = (host: Host, { id }: SandboxSpec, step: string): void =>
  host.log.debug({ sandbox: id, step }, 'sandbox')

/** Throws unless the base filesystem can be mounted: only root can mount files of a sandbox of another network. */
function refuseForeignBase(
  rootless: boolean,
  earlier: StoppedFiles | undefined,
  localNetwork: LocalNetwork | undefined,
): void {
  if (!rootless || !earlier || earlier.localNetwork === localNetwork) return
  throw new SandboxUnsupported(
    'A base filesystem from outside the sandbox network requires the provider local as root, or docker.',
  )
}

async function createSandbox(
  host: Host,
  spec: SandboxSpec,
  resources: SandboxResources,
  binds: string[],
): Promise<Sandbox> {
  const { files, record } = resources
  await mkdir(files.folder, { mode: 0o700 })
  if (host.cgroups)
    await createCgroup(host.cgroups, spec.id, spec.limits, SPARE_PROCESSES[host.runtime] + countControlProcesses(spec))
  logStep(host, spec, 'cgroup')

  const earlier = spec.baseFilesystem.kind === 'image' ? undefined : requireStoppedFiles(spec.baseFilesystem.from)
  const localNetwork = spec.network ? localNetworkOf(spec.network.sandboxNetwork) : undefined
  refuseForeignBase(host.rootless, earlier, localNetwork)
  const namespaceProcess = await openNamespaceProcess(host, spec, earlier, localNetwork)
  resources.namespaceProcess = namespaceProcess
  record.namespaceProcess = await findProcess(namespaceProcess.pid)
  await updateRecord(join(host.store.folder, 'records'), record)
  logStep(host, spec, 'namespace')
  if (localNetwork) {
    resources.membership = {
      network: localNetwork,
      address: await joinNetwork(localNetwork, namespaceProcess, spec.network?.names ?? []),
    }
    logStep(host, spec, 'member')
  }

  const baseContext = { host, namespaceProcess, files, imageDigest: spec.image.digest }
  files.changes.push(...(await createBaseLayers(baseContext, spec.baseFilesystem)))
  await mountFiles(host, namespaceProcess, files, spec.limits.diskMb)
  for (const name of ['output', ...(spec.input.length > 0 ? ['input'] : [])])
    await host.pipes.put(namespaceProcess, join(files.folder, name))
  await copyBaseFiles(baseContext, spec.baseFilesystem)
  await unpackUploads(rootOf(host, namespaceProcess, files), spec.uploads, !host.rootless)
  logStep(host, spec, 'mount')

  const output = await copyOutput(join(files.folder, 'output'), spec.outputFile, spec.limits.outputBytes)
  try {
    return await launchSandbox({ host, spec, resources, namespaceProcess, output, binds })
  } catch (error) {
    // Nothing will write to the pipe, so its reader would wait forever and keep this process alive.
    await output.finish()
    throw error
  }
}

type PreparedSandbox = Pick<LocalRunningSandbox, 'host' | 'spec' | 'resources' | 'output'> & {
  namespaceProcess: NamespaceProcess
  binds: string[]
}

async function launchSandbox(prepared: PreparedSandbox): Promise<Sandbox> {
  const { host, spec, resources, namespaceProcess, output, binds } = prepared
  if (hasControl(spec)) resources.control = await openControl(resources.files.folder, namespaceProcess)
  const launched = await launchWith[host.runtime](await planLaunch({ host, spec, namespaceProcess, resources, binds }))
  logStep(host, spec, 'launch')
  if (spec.ports.length > 0) {
    const network = spec.network ? localNetworkOf(spec.network.sandboxNetwork) : undefined
    resources.servers.push(
      ...(await openPorts(buildEnterNetworkArgs(launched.init.pid, host.rootless, network), spec.ports)),
    )
    await launched.begin()
    logStep(host, spec, 'ports')
  }
  return toSandbox({ host, spec, resources, namespaceProcess, launched, output })
}

/** Takes a pooled namespace process, unless the sandbox needs the mounts or the network of another one. */
async function openNamespaceProcess(
  host: Host,
  spec: SandboxSpec,
  earlier: StoppedFiles | undefined,
  localNetwork: LocalNetwork | undefined,
): Promise<NamespaceProcess> {
  const { rootless, runtime } = host
  if (!rootless && !localNetwork) {
    const needsEarlierMounts = earlier !== undefined && !(await usesStoreOnly(host, spec, earlier))
    if (!needsEarlierMounts) return host.namespacePool.take()
  }
  return startNamespaceProcess({
    rootless,
    copyMountsOf: earlier?.namespaceProcess,
    cwd: '/',
    ownsProcesses: runtime === 'runc',
    network: localNetwork?.namespaceProcess,
  })
}

function toSandbox(running: LocalRunningSandbox): Sandbox {
  const { host, spec, resources, namespaceProcess } = running
  const watched = watch(running)
  let isOver = false
  const end = (): void => {
    isOver = true
  }
  watched.exited.then(end, end)
  const stopped: StoppedFiles = {
    imageDigest: spec.image.digest,
    namespaceProcess,
    files: resources.files,
    root: rootOf(host, namespaceProcess, resources.files),
    localNetwork: resources.membership?.network,
    laterRemovals: new Set(),
    removal: undefined,
  }
  const earlier = spec.baseFilesystem.kind === 'image' ? undefined : requireStoppedFiles(spec.baseFilesystem.from)
  const remove = buildRemoval(running, watched, { stopped, earlier })
  return {
    id: spec.id,
    exited: watched.exited,
    kill: watched.kill,
    exec: async (execSpec) => {
      if (resources.control === undefined) throw new Error(`Sandbox ${spec.id} was not started for exec.`)
      return execIn(running, resources.control, { isOver: () => isOver, ...watched }, execSpec)
    },
    stopped: createStoppedSandbox(spec.id, stopped, host.store.folder),
    remove,
  }
}

/** Files of a sandbox, and those of the earlier sandbox that it started from. */
type SandboxLineage = { stopped: StoppedFiles; earlier: StoppedFiles | undefined }

/**
 * Builds the method `remove` of a sandbox. While later sandboxes use its layers, `remove` returns before the files are
 * gone. The files are removed after the last of these sandboxes, whose `remove` waits for that.
 */
function buildRemoval(
  { host, resources }: LocalRunningSandbox,
  watched: WatchedSandbox,
  { stopped, earlier }: SandboxLineage,
): () => Promise<void> {
  const removed = Promise.withResolvers<void>()
  removed.promise.catch(() => {}) // reported by `remove`
  earlier?.laterRemovals.add(removed.promise)

  return runOnce(async () => {
    await watched.kill()
    await watched.exited.catch(() => {})
    stopped.removal = Promise.all(stopped.laterRemovals).then(() => removeSandbox(host, resources))
    stopped.removal.then(removed.resolve, removed.reject)
    if (stopped.laterRemovals.size > 0) return
    await stopped.removal
    earlier?.laterRemovals.delete(removed.promise)
    if (earlier?.laterRemovals.size === 0) await earlier.removal
  })
}

/** Number of bytes of a command's output that the error of a failed start quotes. */
const OUTPUT_SHOWN_BYTES = 500

type WatchedSandbox = { exited: Promise<Exit>; kill(): Promise<void>; isDiskFull: DiskWatch['isFull'] }

/** Waits for the end of a running sandbox and enforces its time and disk limits. */
function watch(running: LocalRunningSandbox): WatchedSandbox {
  const { launched, spec } = running
  const startedAt = performance.now()
  let stopReason: SandboxStopReason | undefined
  let isOver = false

  const stop = async (reason: SandboxStopReason): Promise<void> => {
    if (isOver) return
    stopReason ??= reason
    await killProcess(launched.init)
  }
  const timer = setTimeout(() => void stop('seconds'), spec.limits.seconds * 1000)
  const disk = watchDiskUse(running, () => void stop('disk'))

  const waitForExit = async (): Promise<Exit> => {
    try {
      const { code, errorOutput, hasStarted } = await launched.ended
      const seconds = (performance.now() - startedAt) / 1000
      await ensureDead(running)
      isOver = true
      await running.output.finish()
      const { bytes } = await running.output.ended
      const hits = await readLimitHits(running.host.cgroups, spec.id)
      const hasNeverStarted = code === undefined && !hasStarted
      const isExplained = stopReason !== undefined || hits.memory > 0
      if (hasNeverStarted && !isExplained) throw await toStartFailure(running, errorOutput)
      return toExit({
        stopReason,
        code,
        hits,
        seconds,
        outputBytes: bytes,
        diskFull: await disk.isFull(),
        outputMaxBytes: spec.limits.outputBytes,
      })
    } finally {
      clearTimeout(timer)
      disk.stop()
      await release(running.resources)
    }
  }
  const exited = waitForExit()
  exited.catch(() => {}) // reported when `exited` is awaited
  return { exited, kill: () => stop('kill'), isDiskFull: disk.isFull }
}

function watchDiskUse({ spec, resources, namespaceProcess, host }: LocalRunningSandbox, onFull: () => void): DiskWatch {
  const { diskMb } = spec.limits
  const shared = spec.mounts.flatMap((mount) => listSharedFolders(spec, mount))
  const changes = resources.files.disk === undefined ? [join(resources.files.folder, 'upper')] : []
  const folders = [...changes, ...shared]
  const processes = () => listSandboxProcesses(host, spec)
  const watched = folders.length > 0 ? watchFolders({ folders, maxMb: diskMb, processes }, onFull) : NO_WATCH
  if (resources.files.disk === undefined) return watched
  return combineWatches(watchDisk(namespaceProcess, join(host.store.folder, resources.files.disk)), watched)
}

/** Lists the folders of this machine that a sandbox writes to through a mount. */
function listSharedFolders({ network }: SandboxSpec, mount: Mount): string[] {
  if (mount.kind === 'tmpfs' || mount.readOnly) return []
  if (mount.kind === 'folder') return [mount.source]
  return network ? [toVolumeFolder(localNetworkOf(network.sandboxNetwork), mount.name)] : []
}

const listSandboxProcesses = async ({ cgroups }: Host, { id }: SandboxSpec): Promise<number[]> => {
  const [folder] = cgroups ? listCgroupFolders(cgroups, id) : []
  return folder === undefined ? [] : listProcesses(folder)
}

/** Kills processes that outlive the command. */
async function ensureDead({ launched, host, spec }: LocalRunningSandbox): Promise<void> {
  if (await isAlive(launched.init)) await killProcess(launched.init)
  if (!(await waitForEnd(launched.init))) {
    throw new SandboxUnavailable(`Sandbox ${spec.id} was killed but has not ended.`)
  }
  for (const pid of await listSandboxProcesses(host, spec)) sendKill(pid)
}

/** Builds the error for a sandbox that did not start. The runtime writes its message to the output of the command. */
async function toStartFailure({ spec }: LocalRunningSandbox, errorOutput: string): Promise<SandboxUnavailable> {
  await using file = await open(spec.outputFile)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(OUTPUT_SHOWN_BYTES), 0, OUTPUT_SHOWN_BYTES, 0)
  const message = `${errorOutput} ${buffer.toString('utf8', 0, bytesRead)}`.trim()
  return new SandboxUnavailable(`Sandbox ${spec.id} did not start: ${message}`)
}

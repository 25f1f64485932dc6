import type { Duplex, Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { runOnce } from '../../platform/concurrency.ts'
import { countRefusedProcesses, NO_REFUSED_PROCESSES, type RefusedProcesses } from '../kernel/cgroup.ts'
import { buildEnterArgs } from '../kernel/namespace-process.ts'
import { abandon, removeOrAbandon, requireSafeId } from '../kernel/ownership.ts'
import { openPorts } from '../kernel/ports.ts'
import { type Sandbox, type SandboxSpec, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { findIdentity, repairAccounts } from './account.ts'
import { type ContainerBase, planBaseFilesystem } from './base-filesystem.ts'
import { renewUse } from './built-images.ts'
import { EngineRefusal, ignoring } from './client.ts'
import {
  ADOPTABLE_LOG,
  buildContainerBody,
  type Container,
  isContainerRunning,
  type OpenPorts,
  type RunningContainer,
} from './container.ts'
import { type DockerEngine, logStep, nameOf } from './engine.ts'
import { copyFrames, execIn, putUploads } from './exec.ts'
import { LAUNCHER_FOLDER } from './launcher.ts'
import { type ContainerLayers, flattenFolders, writeToUpper } from './layers.ts'
import { listenToRelay, openRelay, relayName } from './relay.ts'
import { createStoppedSandbox } from './stopped-sandbox.ts'
import { watchContainer } from './watch.ts'

export async function startSandbox(engine: DockerEngine, requested: SandboxSpec): Promise<Sandbox> {
  refuseUnsupported(engine, requested)
  const spec = { ...requested, isAdoptable: canBeAdopted(engine, requested) }
  try {
    return await createContainer(engine, spec)
  } catch (error) {
    if (error instanceof SandboxUnavailable || error instanceof SandboxUnsupported) throw error
    throw toStartError(spec, error)
  } finally {
    for (const { tar } of spec.uploads) tar.destroy()
  }
}

function refuseUnsupported({ gatewayChannel }: DockerEngine, { id, ports, mounts, network }: SandboxSpec): void {
  requireSafeId(id)
  if (ports.length > 0 && gatewayChannel === 'none') {
    throw new SandboxUnsupported('Ports of a sandbox require a Docker engine on this machine.')
  }
  if (network === null && mounts.some(({ kind }) => kind === 'volume')) {
    throw new SandboxUnsupported('Volumes require a sandbox network.')
  }
}

/** Returns true if another process can continue the sandbox. Its ports need a relay, which outlives this process. */
const canBeAdopted = (engine: DockerEngine, spec: SandboxSpec): boolean =>
  spec.isAdoptable === true &&
  spec.command !== null &&
  spec.baseFilesystem.kind === 'image' &&
  engine.launcher !== undefined &&
  engine.gatewayChannel !== 'none'

function toStartError({ id, user, image }: SandboxSpec, error: unknown): Error {
  const refused = error instanceof EngineRefusal ? error : undefined
  if (refused?.status === 409) return new Error(`Sandbox ${id} already exists.`, { cause: error })
  const message = error instanceof Error ? error.message : String(error)
  if (/unable to find (user|group)|no matching entries in (passwd|group) file/.test(message)) {
    return new SandboxUnsupported(`The image has no user ${JSON.stringify(user ?? image.user)}.`, { cause: error })
  }
  return new SandboxUnavailable(`Sandbox ${id} could not be started: ${message}`, { cause: error })
}

async function createContainer(engine: DockerEngine, spec: SandboxSpec): Promise<Sandbox> {
  await renewUse(engine, spec.image)
  const containerBase = await planBaseFilesystem(engine, spec)
  try {
    const query = { name: nameOf(engine, spec.id) }
    const identity = await findIdentity(engine, spec.image, spec.user ?? spec.image.user)
    const body = buildContainerBody(engine, spec, { image: containerBase.image, identity })
    const { Id } = await engine.docker.call<{ Id: string }>('POST', '/containers/create', { query, body })
    logStep(engine, spec.id, 'created')
    return await launch(engine, spec, containerBase, Id).catch(async (error: unknown) => {
      await removeContainer(engine, Id)
      throw error
    })
  } catch (error) {
    // The engine may have created a container without answering, or not have removed it. With 409 it is another sandbox.
    if (!(error instanceof EngineRefusal && error.status === 409)) abandon(spec.id)
    for (const tar of containerBase.workspace) tar.destroy() // not read
    await containerBase.release()
    throw error
  }
}

const removeContainer = (engine: DockerEngine, id: string): Promise<unknown> =>
  engine.docker.call('DELETE', `/containers/${id}`, { query: { force: true, v: true } }).catch(ignoring(404, 409))

async function launch(
  engine: DockerEngine,
  spec: SandboxSpec,
  containerBase: ContainerBase,
  id: string,
): Promise<Sandbox> {
  const unwritten = await writeWorkspace(engine, containerBase, id)
  await putUploads(engine, { id, spec, workspace: unwritten })
  if (containerBase.changesEtc) await repairAccounts(engine, { id, image: spec.image.digest, layers: undefined })
  logStep(engine, spec.id, 'filled')
  const query = { stream: 1, stdin: 1, stdout: 1, stderr: 1 }
  const stream = await engine.docker.attach(`/containers/${id}/attach`, { query })
  let refusedProcesses = NO_REFUSED_PROCESSES
  const { outputFile: file, limits } = spec
  const output = copyFrames(stream, { file, maxBytes: limits.outputBytes, onOutput: () => refusedProcesses.read() })
  output.catch(() => {}) // reported by `exited`
  stream.on('error', () => {})
  try {
    await engine.docker.call('POST', `/containers/${id}/start`)
    logStep(engine, spec.id, 'started')
    const container = await inspect(engine, id)
    refusedProcesses = await watchRefusedProcesses(engine, container)
    const ports = await openSandboxPorts(engine, spec, container)
    if (spec.ports.length > 0) logStep(engine, spec.id, 'ports')
    if (engine.launcher) stream.write('go\n')
    const isInputSent = await sendInput(stream, spec)
    logStep(engine, spec.id, 'running')
    const running = { engine, spec, container, elapsedSeconds: 0, stream, output, ports, refusedProcesses }
    return toSandbox(running, { ...containerBase, isAdoptable: isInputSent && spec.isAdoptable === true })
  } catch (error) {
    refusedProcesses.stop()
    stream.destroy()
    await output.catch(() => {})
    throw error
  }
}

const INPUT_TIMEOUT_MS = 1000

/**
 * Sends the input. Returns true if the engine has all of it, so that the command gets it even if this process dies. Other
 * sandboxes do not wait for that: a command may read its input late or never.
 */
async function sendInput(stream: Duplex, { input, isAdoptable }: SandboxSpec): Promise<boolean> {
  const sent = new Promise<boolean>((resolve) => {
    stream.end(input, () => resolve(!stream.errored))
  })
  return isAdoptable ? Promise.race([sent, wait(INPUT_TIMEOUT_MS, false, { ref: false })]) : false
}

type AdoptableContainer = {
  Id: string
  State: { Status: string; StartedAt: string; FinishedAt: string }
  HostConfig: { LogConfig: { Type: string } }
}

/** Continues a sandbox that another process has started. Its output is read again from the beginning. */
export async function adoptSandbox(engine: DockerEngine, requested: SandboxSpec): Promise<Sandbox | undefined> {
  const spec = { ...requested, isAdoptable: true }
  for (const { tar } of spec.uploads) tar.destroy()
  const path = `/containers/${nameOf(engine, spec.id)}`
  const found = await engine.docker.call<AdoptableContainer>('GET', `${path}/json`).catch(ignoring(404))
  if (found?.HostConfig.LogConfig.Type !== ADOPTABLE_LOG) return undefined
  const { Id, State } = found
  const isRunning = State.Status === 'running'
  if (!isRunning && State.Status !== 'exited') return undefined
  const needsRelay = isRunning && spec.ports.length > 0
  if (needsRelay && !(await isContainerRunning(engine.docker, relayName(engine, spec.id)))) return undefined
  const query = { follow: true, stdout: true, stderr: true }
  const stream = await engine.docker.open('GET', `/containers/${Id}/logs`, { query, timeoutMs: null })
  const container = await inspect(engine, Id)
  const refusedProcesses = await watchRefusedProcesses(engine, container)
  const { outputFile: file, limits } = spec
  const output = copyFrames(stream, { file, maxBytes: limits.outputBytes, onOutput: () => refusedProcesses.read() })
  output.catch(() => {}) // reported by `exited`
  stream.on('error', () => {})
  const ports = spec.ports.length > 0 ? await listenToRelay(engine, spec) : NO_PORTS
  const endedAt = isRunning ? Date.now() : Date.parse(State.FinishedAt)
  const elapsedSeconds = Math.max(0, (endedAt - Date.parse(State.StartedAt)) / 1000)
  logStep(engine, spec.id, 'adopted')
  const running = { engine, spec, container, elapsedSeconds, stream, output, ports, refusedProcesses }
  return toSandbox(running, { inherited: [], release: async () => {}, isAdoptable: true })
}

/** Counts how often the kernel refuses a process to a container. Counts nothing if its counters cannot be read. */
const watchRefusedProcesses = async ({ cgroups }: DockerEngine, { pid }: Container): Promise<RefusedProcesses> =>
  cgroups && pid > 0 ? countRefusedProcesses(cgroups, pid) : NO_REFUSED_PROCESSES

/** Writes the workspace directly into the container's layer if possible. Returns the archives that must be uploaded. */
async function writeWorkspace(
  engine: DockerEngine,
  { workspace, isTopLevel }: ContainerBase,
  id: string,
): Promise<Readable[]> {
  const canWriteToLayer = isTopLevel && engine.isRoot
  if (workspace.length === 0 || !canWriteToLayer) return workspace
  const { layers } = await inspect(engine, id)
  if (layers === undefined) return workspace
  for (const tar of workspace) {
    if (!(await writeToUpper(layers, tar))) throw new SandboxUnavailable('A workspace could not be written.')
  }
  return []
}

type InspectedContainer = {
  State: { Pid: number }
  HostnamePath?: string
  HostsPath?: string
  ResolvConfPath?: string
  Mounts: { Type: string; Source: string; Destination: string; RW: boolean }[]
  GraphDriver?: { Data?: { UpperDir?: string; LowerDir?: string } | null }
}

/** Inspects a container, as far as this process can use the result. */
async function inspect(engine: DockerEngine, id: string): Promise<Container> {
  if (!engine.seesProcesses) return { id, pid: 0, layers: undefined, engineFiles: [], volumes: [] }
  const found = await engine.docker.call<InspectedContainer>('GET', `/containers/${id}/json`)
  const pid = found.State.Pid
  if (!engine.isRoot) return { id, pid, layers: undefined, engineFiles: [], volumes: [] }
  const { HostnamePath, HostsPath, ResolvConfPath } = found
  const engineFiles = [HostnamePath, HostsPath, ResolvConfPath].flatMap((path) => path || [])
  const volumes = listVolumes(found).flatMap(({ RW, Source }) => (RW ? [Source] : []))
  // Owners in the layers of an engine that maps users are not those of the container.
  const layers = engine.userMapping === 'none' ? findLayers(found) : undefined
  return { id, pid, layers, engineFiles, volumes }
}

const listVolumes = ({ Mounts }: InspectedContainer): InspectedContainer['Mounts'] =>
  Mounts.filter(({ Type, Destination }) => Type === 'volume' && Destination !== LAUNCHER_FOLDER)

/** Volumes are not part of the layers, so the files of a container with volumes are read through the engine. */
function findLayers(container: InspectedContainer): ContainerLayers | undefined {
  const { UpperDir: upper, LowerDir: lower } = container.GraphDriver?.Data ?? {}
  return upper && lower && listVolumes(container).length === 0 ? { upper, lower } : undefined
}

type SandboxOrigin = Pick<ContainerBase, 'inherited' | 'release'> & { isAdoptable: boolean }

function toSandbox(running: RunningContainer, { inherited, release, isAdoptable }: SandboxOrigin): Sandbox {
  const { engine, spec, container } = running
  const watched = watchContainer(running)
  let isLeft = false
  const remove = async (): Promise<void> => {
    if (isLeft) return
    logStep(engine, spec.id, 'removing')
    await watched.kill()
    await watched.exited.catch(() => {})
    await removeContainer(engine, container.id).catch(async (error: unknown) => {
      if (!(error instanceof EngineRefusal) || container.layers === undefined) throw error
      await flattenFolders(container.layers)
      await removeContainer(engine, container.id)
    })
    await release()
  }
  const leave = async (): Promise<void> => {
    isLeft = true
    await watched.leave()
  }
  return {
    id: spec.id,
    exited: watched.exited,
    kill: watched.kill,
    exec: (exec) => execIn({ engine, spec, container, isOver: watched.isOver }, exec),
    stopped: createStoppedSandbox(engine, spec, container, {
      inherited,
      repairAccounts: runOnce(() =>
        repairAccounts(engine, { id: container.id, image: spec.image.digest, layers: undefined }),
      ),
    }),
    remove: runOnce(() => removeOrAbandon(spec.id, remove)),
    ...(isAdoptable ? { leave } : {}),
  }
}

const NO_PORTS: OpenPorts = { close: async () => {}, leave: async () => {} }

/** Opens the ports before the command starts. The container is running, but its first process still waits. */
async function openSandboxPorts(
  engine: DockerEngine,
  spec: Pick<SandboxSpec, 'id' | 'ports' | 'limits' | 'isAdoptable'>,
  container: { id: string; pid: number },
): Promise<OpenPorts> {
  if (spec.ports.length === 0) return NO_PORTS
  switch (spec.isAdoptable ? 'relay' : engine.gatewayChannel) {
    case 'namespace': {
      const servers = await openPorts(buildEnterArgs(container.pid, false, '--net'), spec.ports)
      const close = async (): Promise<void> => servers.forEach((server) => void server.close())
      return { close, leave: close }
    }
    case 'relay':
      return openRelay(engine, spec, container.id)
    case 'none':
      throw new SandboxUnsupported(
        'Sandboxes of this Docker engine cannot have ports: the engine is not on this machine, or its network cannot be reached.',
      )
  }
}

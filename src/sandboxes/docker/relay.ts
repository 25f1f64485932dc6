import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, copyFile, mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { shareSuccessByKey } from '../../platform/concurrency.ts'
import { ignoreCode } from '../../platform/errors.ts'
import { LABEL } from '../kernel/ownership.ts'
import { listenForPort } from '../kernel/ports.ts'
import { buildRelayProgram } from '../kernel/relay-program.ts'
import { listLibraries } from '../kernel/run-program.ts'
import { type Port, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { ignoring } from './client.ts'
import { buildIsolationSettings, type OpenPorts } from './container.ts'
import { type DockerEngine, labelsOf, nameOf } from './engine.ts'

const PORTS_FOLDER = '/ports'
/** Program of a separate container that shares only the network with the sandbox. */
const RELAY = buildRelayProgram({ folder: PORTS_FOLDER })
const PROGRAM_FOLDER = '/relay'
const PROCESSES_MAX = 32
const MEMORY_BYTES = 256 * 1024 * 1024
const START_TIMEOUT_MS = 30_000

/** Returns the folder of a sandbox's sockets. It is short, because the path of a socket is limited to about 100 bytes. */
export const portsFolder = ({ folder }: DockerEngine, id: string): string =>
  join(folder, 'ports', createHash('sha256').update(id).digest('hex').slice(0, 12))

/**
 * Opens ports without root: a container in the sandbox's network forwards them. The container runs a copy of this
 * process's own Node, mounted read-only, so that no image is needed.
 */
export async function openRelay(
  engine: DockerEngine,
  { id, ports, limits, isAdoptable }: Pick<SandboxSpec, 'id' | 'ports' | 'limits' | 'isAdoptable'>,
  container: string,
): Promise<OpenPorts> {
  const open = await listenToRelay(engine, { id, ports, isAdoptable })
  try {
    const deadline = String(Date.now() + limits.seconds * 1000)
    const labels = labelsOf(engine, 'relay', { [LABEL.sandbox]: id, [LABEL.deadline]: deadline })
    const args = ports.map((port) => `${isResumable(port, isAdoptable) ? 'resumable:' : ''}${port.port}`)
    await startRelay(engine, { name: relayName(engine, id), container, labels, folder: portsFolder(engine, id), args })
    return open
  } catch (error) {
    await open.close()
    throw error
  }
}

/** Listens to the relay of a sandbox, also to one that another process has started. */
export async function listenToRelay(
  engine: DockerEngine,
  { id, ports, isAdoptable }: Pick<SandboxSpec, 'id' | 'ports' | 'isAdoptable'>,
): Promise<OpenPorts> {
  const folder = portsFolder(engine, id)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const handlers = ports.map((port) => (isResumable(port, isAdoptable) ? { ...port, onConnection: port.onPipe } : port))
  const servers = await Promise.all(handlers.map((port) => listenForPort(folder, port)))
  const leave = async (): Promise<void> => servers.forEach((server) => void server.close())
  return {
    leave,
    async close() {
      await leave()
      await engine.docker
        .call('DELETE', `/containers/${relayName(engine, id)}`, { query: { force: true, v: true } })
        .catch(ignoring(404, 409))
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const isResumable = (port: Port, isAdoptable = false): port is Port & { onPipe: Port['onConnection'] } =>
  isAdoptable && port.onPipe !== undefined

export const relayName = (engine: DockerEngine, id: string): string => nameOf(engine, id, 'relay')

type Relay = { name: string; container: string; labels: Record<string, string>; folder: string; args: string[] }

async function startRelay(engine: DockerEngine, { name, container, labels, folder, args }: Relay): Promise<void> {
  const { docker, launcher } = engine
  if (launcher === undefined)
    throw new SandboxUnavailable('Ports require the launcher programs, which were not found on this machine.')
  const program = await copyNode(engine)
  const bind = (Source: string, Target: string) => ({ Type: 'bind', Source, Target, ReadOnly: true })
  const inside = (name: string): string => join(PROGRAM_FOLDER, name)
  const command = [inside(program.loader), '--library-path', PROGRAM_FOLDER, inside('node'), '-e', RELAY]
  const body = {
    Image: launcher.image,
    // The sockets belong to this process's user, which is the root of containers of its rootless engine.
    User: engine.userMapping === 'rootless' ? '0:0' : `${process.getuid?.()}:${process.getgid?.()}`,
    Entrypoint: [...command, ...args],
    Labels: labels,
    AttachStdout: true,
    AttachStderr: true,
    HostConfig: {
      ...buildIsolationSettings(PROCESSES_MAX),
      CapAdd: [],
      Memory: MEMORY_BYTES,
      MemorySwap: MEMORY_BYTES,
      NetworkMode: `container:${container}`,
      ReadonlyRootfs: true,
      Mounts: [bind(program.folder, PROGRAM_FOLDER), bind(folder, PORTS_FOLDER)],
    },
  }
  const { Id } = await docker.call<{ Id: string }>('POST', '/containers/create', { query: { name }, body })
  const stream = await docker.attach(`/containers/${Id}/attach`, { query: { stream: 1, stdout: 1, stderr: 1 } })
  await docker.call('POST', `/containers/${Id}/start`)
  let output = ''
  const timer = setTimeout(() => stream.destroy(), START_TIMEOUT_MS)
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    output += String(chunk)
    if (output.includes('open')) break
  }
  clearTimeout(timer)
  stream.on('error', () => {}).resume()
  if (!output.includes('open')) throw new SandboxUnavailable(`The relay of a sandbox's ports did not start: ${output}`)
}

type NodeCopy = { folder: string; loader: string }

/** Copies that exist or are being made, by the folder that contains them. */
const copies = new Map<string, Promise<NodeCopy>>()

/**
 * Copies this process's Node with its loader and libraries to the data folder. When Assay itself runs in a container,
 * the engine can mount nothing else of its files.
 */
const copyNode = ({ folder }: DockerEngine): Promise<NodeCopy> =>
  shareSuccessByKey(copies, folder, () => createCopy(folder))

async function createCopy(folder: string): Promise<NodeCopy> {
  const target = join(folder, `relay-${process.version}`)
  const libraries = await listLibraries([process.execPath])
  const loader = basename(libraries.find((path) => basename(path).startsWith('ld-')) ?? '')
  if (await stat(target).catch(() => undefined)) return { folder: target, loader }
  // A killed process leaves its draft, which `reap` removes by this name.
  const draft = await mkdtemp(join(folder, 'spool-'))
  try {
    await copyFile(process.execPath, join(draft, 'node'), constants.COPYFILE_FICLONE)
    for (const path of libraries) await copyFile(path, join(draft, basename(path)))
    await chmod(draft, 0o755)
    // Another process of this machine may have been faster.
    await rename(draft, target).catch(ignoreCode('ENOTEMPTY', 'EEXIST'))
    return { folder: target, loader }
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

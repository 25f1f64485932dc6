import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, copyFile, mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { LABEL } from '../kernel/ownership.ts'
import { listenForPort } from '../kernel/ports.ts'
import { buildRelayProgram } from '../kernel/relay-program.ts'
import { listLibraries } from '../kernel/run-program.ts'
import { type Port, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { ignoring } from './client.ts'
import { isolationSettings, type OpenPorts } from './container.ts'
import { type DockerEngine, labelsOf, nameOf } from './engine.ts'

const PORTS_FOLDER = '/ports'
/** Program of a separate container that shares only the network with the sandbox. */
const RELAY = buildRelayProgram({ folder: PORTS_FOLDER })
const PROGRAM_FOLDER = '/relay'
const PROCESSES_MAX = 32
const OPEN_MS = 30_000

/** Returns the folder of a sandbox's sockets. It is short, because the path of a socket is limited to about 100 bytes. */
export const portsFolder = ({ folder }: DockerEngine, id: string): string =>
  join(folder, 'ports', createHash('sha256').update(id).digest('hex').slice(0, 12))

/**
 * Opens ports without root: a container in the sandbox's network forwards them. It runs a copy of this process's own
 * Node, mounted read-only, so that no image is needed.
 */
export async function openRelay(
  engine: DockerEngine,
  { id, ports, limits }: Pick<SandboxSpec, 'id' | 'ports' | 'limits'>,
  container: string,
): Promise<OpenPorts> {
  const folder = portsFolder(engine, id)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const servers = await Promise.all(ports.map((port) => listenForPort(folder, port)))
  const name = nameOf(engine, id, 'relay')
  const close = async (): Promise<void> => {
    for (const server of servers) server.close()
    await engine.docker
      .call('DELETE', `/containers/${name}`, { query: { force: true, v: true } })
      .catch(ignoring(404, 409))
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const deadline = String(Date.now() + limits.seconds * 1000)
    const labels = labelsOf(engine, 'relay', { [LABEL.sandbox]: id, [LABEL.deadline]: deadline })
    await startRelay(engine, { name, container, labels, folder, ports })
    return { close }
  } catch (error) {
    await close()
    throw error
  }
}

type Relay = { name: string; container: string; labels: Record<string, string>; folder: string; ports: Port[] }

async function startRelay(engine: DockerEngine, { name, container, labels, folder, ports }: Relay): Promise<void> {
  const { docker, launcher } = engine
  if (launcher === undefined)
    throw new SandboxUnavailable('Ports require the launcher programs, which were not found on this machine.')
  const program = await copyNode(engine)
  const bind = (Source: string, Target: string) => ({ Type: 'bind', Source, Target, ReadOnly: true })
  const inside = (name: string): string => join(PROGRAM_FOLDER, name)
  const words = [inside(program.loader), '--library-path', PROGRAM_FOLDER, inside('node'), '-e', RELAY]
  const body = {
    Image: launcher.image,
    // The sockets belong to this process's user, which is the root of containers of its rootless engine.
    User: engine.userMapping === 'rootless' ? '0:0' : `${process.getuid?.()}:${process.getgid?.()}`,
    Entrypoint: [...words, ...ports.map(({ port, isResumable }) => (isResumable ? `resumable:${port}` : String(port)))],
    Labels: labels,
    AttachStdout: true,
    AttachStderr: true,
    HostConfig: {
      ...isolationSettings(PROCESSES_MAX),
      CapAdd: [],
      NetworkMode: `container:${container}`,
      ReadonlyRootfs: true,
      Mounts: [bind(program.folder, PROGRAM_FOLDER), bind(folder, PORTS_FOLDER)],
    },
  }
  const { Id } = await docker.call<{ Id: string }>('POST', '/containers/create', { query: { name }, body })
  const stream = await docker.attach(`/containers/${Id}/attach`, { query: { stream: 1, stdout: 1, stderr: 1 } })
  await docker.call('POST', `/containers/${Id}/start`)
  let output = ''
  const timer = setTimeout(() => stream.destroy(), OPEN_MS)
  for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
    output += String(chunk)
    if (output.includes('open')) break
  }
  clearTimeout(timer)
  stream.on('error', () => {}).resume()
  if (!output.includes('open')) throw new SandboxUnavailable(`The relay of a sandbox's ports did not start: ${output}`)
}

type NodeCopy = { folder: string; loader: string }

const copies = new Map<string, Promise<NodeCopy>>()

/**
 * Copies this process's Node with its loader and libraries to the data folder. When Assay itself runs in a container,
 * the engine can mount nothing else of its files.
 */
function copyNode({ folder }: DockerEngine): Promise<NodeCopy> {
  const known = copies.get(folder)
  if (known) return known
  const copying = createCopy(folder)
  copies.set(folder, copying)
  copying.catch(() => copies.delete(folder))
  return copying
}

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
    await rename(draft, target).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error
    })
    return { folder: target, loader }
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}

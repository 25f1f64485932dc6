import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { DEFAULT_LIMITS } from '../../harbor/limits.ts'
import type { Log } from '../../platform/log.ts'
import type { AllowedHost } from '../../platform/outbound/url-rules.ts'
import { parseLayout } from '../kernel/cgroup.ts'
import { readOwnerId } from '../kernel/ownership.ts'
import { IMAGE_ARCHITECTURE } from '../kernel/prepare-image.ts'
import { type Capabilities, type Sandbox, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { connectDocker, type Docker } from './client.ts'
import type { DockerConnection } from './connection.ts'
import { type DockerEngine, nameOf } from './engine.ts'
import { type DockerLauncher, loadLauncher, toLauncherImage } from './launcher.ts'
import { startSandbox } from './start.ts'

type OpenEngineOptions = {
  connection: DockerConnection
  installation: string
  folder: string
  buildHosts: readonly AllowedHost[]
  imageDiskBytes: number | undefined
  log: Log
}

/** Minor version of the API 1.x that this client uses. A newer engine reports the oldest one that it still supports. */
const API_MINOR_VERSION = 41

/** Connects to an engine, detects its capabilities and tests it with a container. Throws SandboxUnavailable. */
export async function openEngine({
  connection,
  installation,
  folder,
  buildHosts,
  imageDiskBytes,
  log,
}: OpenEngineOptions): Promise<DockerEngine> {
  const docker = connectDocker(connection)
  try {
    const { sameArchitecture } = await negotiateVersion(docker)
    const info = await docker.call<EngineInfo>('GET', '/info')
    await mkdir(folder, { recursive: true, mode: 0o700 })
    const engine: DockerEngine = {
      docker,
      log,
      installation,
      folder,
      buildHosts,
      imageDiskBytes,
      owner: await readOwnerId(),
      isolation: `docker:${toRuntimeName(info.DefaultRuntime)}`,
      cpus: info.NCPU,
      memoryBytes: info.MemTotal,
      launcher: sameArchitecture ? await loadLauncher(docker) : undefined,
      isOnThisMachine: false,
      seesProcesses: false,
      isRoot: false,
      cgroups: undefined,
      userMapping: toUserMapping(info),
      limits: toLimits(info),
      gatewayChannel: 'none',
      images: new Map(),
      accounts: new Map(),
    }
    if (!info.SecurityOptions?.some((option) => option.includes('seccomp'))) {
      log.warn('the Docker engine has no seccomp: its sandboxes can make every system call')
    }
    const missing = Object.entries(engine.limits).flatMap(([name, isEnforced]) => (isEnforced ? [] : name))
    if (missing.length > 0) log.warn({ missing }, 'the Docker engine does not enforce all limits: it lacks cgroups')
    return engine.launcher === undefined ? engine : await testEngine(engine, engine.launcher, isTrusted(connection))
  } catch (error) {
    docker.close()
    if (error instanceof SandboxUnavailable) throw error
    throw new SandboxUnavailable(`The Docker engine does not work: ${String(error)}`, { cause: error })
  }
}

/**
 * Returns false for an engine of a stored credential, which is treated as remote whatever it answers: if an engine is on
 * this machine, Assay reads and writes the folders and processes that the engine names.
 */
const isTrusted = (connection: DockerConnection): boolean => connection.kind !== 'tcp' || !connection.publicOnly

type EngineInfo = {
  DefaultRuntime: string
  NCPU: number
  MemTotal: number
  SecurityOptions: string[] | null
  /** False on a rootless engine to which systemd has not delegated the controller. */
  MemoryLimit: boolean
  CpuCfsQuota: boolean
  PidsLimit: boolean
}
type EngineVersion = { ApiVersion: string; MinAPIVersion?: string; Os: string; Arch: string; Version: string }

async function negotiateVersion(docker: Docker): Promise<{ sameArchitecture: boolean }> {
  const version = await docker.call<EngineVersion>('GET', '/version')
  const minor = (text: string): number => Number(text.split('.')[1])
  if (version.Os !== 'linux')
    throw new SandboxUnavailable(`The Docker engine runs ${version.Os} containers: Linux is needed.`)
  if (minor(version.ApiVersion) < API_MINOR_VERSION) {
    throw new SandboxUnavailable(`Docker ${version.Version} is too old: 20.10 is the oldest that is known to work.`)
  }
  docker.useVersion(`1.${Math.max(API_MINOR_VERSION, minor(version.MinAPIVersion ?? '1.0'))}`)
  return { sameArchitecture: process.platform === 'linux' && version.Arch === IMAGE_ARCHITECTURE }
}

function toUserMapping({ SecurityOptions }: EngineInfo): DockerEngine['userMapping'] {
  const hasOption = (name: string): boolean =>
    SecurityOptions?.some((option) => option.split(',').includes(`name=${name}`)) ?? false
  if (hasOption('rootless')) return 'rootless'
  return hasOption('userns') ? 'remapped' : 'none'
}

const toLimits = ({ MemoryLimit, CpuCfsQuota, PidsLimit }: EngineInfo): Capabilities['limits'] => ({
  cpus: CpuCfsQuota,
  memory: MemoryLimit,
  pids: PidsLimit,
  disk: 'watched',
})

/** Shortens the name of a runtime, which containerd reports in several forms. */
const toRuntimeName = (text: string): string =>
  /runsc|gvisor/.test(text) ? 'runsc' : text.replace(/^io\.containerd\.(\w+)\..*$/, '$1')

/** Starts a container of the engine, and returns the engine with the capabilities that this shows. */
async function testEngine(
  engine: DockerEngine,
  launcher: DockerLauncher,
  mayBeOnThisMachine: boolean,
): Promise<DockerEngine> {
  const folder = join(engine.folder, `try-${randomUUID()}`)
  await mkdir(folder, { mode: 0o755 })
  await writeFile(join(folder, 'token'), `${basename(folder)}\n`)
  try {
    const { sandbox, isOnThisMachine } = mayBeOnThisMachine
      ? await startTestSandbox(engine, launcher, folder)
      : await startRemoteSandbox(engine, launcher, folder)
    try {
      await checkExec(sandbox, launcher, folder)
      const seesProcesses = isOnThisMachine && (await isProcessVisible(engine, sandbox.id))
      const tested = { ...engine, isOnThisMachine, seesProcesses, isRoot: seesProcesses && process.geteuid?.() === 0 }
      const cgroups = seesProcesses ? parseLayout(await readFile('/proc/self/mountinfo', 'utf8')) : undefined
      return { ...tested, cgroups, gatewayChannel: await detectGatewayChannel(tested, launcher, folder) }
    } finally {
      await sandbox.remove()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

type TestSandbox = { sandbox: Sandbox; isOnThisMachine: boolean }

/** Starts a test sandbox, with a folder of this machine if possible. A remote engine finds no folder, or a different one. */
async function startTestSandbox(engine: DockerEngine, launcher: DockerLauncher, folder: string): Promise<TestSandbox> {
  const specWithFolder = buildTestSpec(launcher, folder, [
    { kind: 'folder', source: folder, target: '/try', readOnly: true },
  ])
  try {
    const sandbox = await startSandbox(engine, specWithFolder)
    if (await readsToken(sandbox, launcher, folder)) return { sandbox, isOnThisMachine: true }
  } catch (error) {
    if (!/bind source path|mount/i.test(String(error))) throw error
    engine.log.info({ error: String(error) }, 'the Docker engine cannot mount folders of this machine')
  }
  return startRemoteSandbox(engine, launcher, folder)
}

/** Reports whether a test sandbox sees the folder. Otherwise the sandbox is removed. */
async function readsToken(sandbox: Sandbox, launcher: DockerLauncher, folder: string): Promise<boolean> {
  const script = `read -r content < /try/token && [ "$content" = ${basename(folder)} ]`
  let isRead = false
  try {
    isRead = (await exec(sandbox, launcher, script, folder)).code === 0
  } finally {
    if (!isRead) await sandbox.remove()
  }
  return isRead
}

const startRemoteSandbox = async (
  engine: DockerEngine,
  launcher: DockerLauncher,
  folder: string,
): Promise<TestSandbox> => ({
  sandbox: await startSandbox(engine, buildTestSpec(launcher, folder, [])),
  isOnThisMachine: false,
})

async function checkExec(sandbox: Sandbox, launcher: DockerLauncher, folder: string): Promise<void> {
  const { code } = await exec(sandbox, launcher, 'exit 42', folder)
  if (code !== 42) throw new SandboxUnavailable(`A command in a container of the Docker engine ended with ${code}.`)
}

const exec = (sandbox: Sandbox, launcher: DockerLauncher, script: string, folder: string) =>
  sandbox.exec({
    command: launcher.toCommand('sh', '-c', script),
    user: null,
    workdir: null,
    env: {},
    input: '',
    outputFile: join(folder, 'exec'),
    limits: { outputBytes: 1000, seconds: 30 },
  })

function buildTestSpec(launcher: DockerLauncher, folder: string, mounts: SandboxSpec['mounts']): SandboxSpec {
  return {
    id: `try-${randomUUID()}`,
    image: toLauncherImage(launcher),
    baseFilesystem: { kind: 'image' },
    uploads: [],
    command: null,
    usesExec: true,
    user: null,
    workdir: null,
    env: {},
    mounts,
    network: null,
    ports: [],
    input: '',
    limits: { ...DEFAULT_LIMITS, pids: 16, outputBytes: 1000, seconds: 60 },
    outputFile: join(folder, 'output'),
  }
}

/** Reports whether the engine's process id of a container is valid on this machine. */
async function isProcessVisible(engine: DockerEngine, id: string): Promise<boolean> {
  type ContainerState = { Id: string; State: { Pid: number } }
  const { Id, State } = await engine.docker.call<ContainerState>('GET', `/containers/${nameOf(engine, id)}/json`)
  return (await readFile(`/proc/${State.Pid}/cgroup`, 'utf8').catch(() => '')).includes(Id)
}

/** Detects how sandboxes can reach the gateway. gVisor has none: no process can enter or share its network stack. */
async function detectGatewayChannel(
  engine: DockerEngine,
  launcher: DockerLauncher,
  folder: string,
): Promise<Capabilities['gatewayChannel']> {
  if (!engine.isOnThisMachine || engine.isolation === 'docker:runsc') return 'none'
  if (engine.isRoot) return 'namespace'
  try {
    const ports = [{ port: 18080, onConnection: () => {} }]
    const sandbox = await startSandbox(
      { ...engine, gatewayChannel: 'relay' },
      { ...buildTestSpec(launcher, folder, []), ports },
    )
    await sandbox.remove()
    return 'relay'
  } catch (error) {
    engine.log.info({ error }, 'sandboxes of the Docker engine can have no ports')
    return 'none'
  }
}

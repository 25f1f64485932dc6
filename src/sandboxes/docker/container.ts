import { once } from 'node:events'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import {
  CAPABILITIES,
  FIRST_PROCESS_CAPABILITY,
  formatBoundingSet,
  HOSTNAME,
  type SandboxIdentity,
} from '../kernel/accounts.ts'
import type { RefusedProcesses } from '../kernel/cgroup.ts'
import { computeSelfEndSeconds } from '../kernel/exit.ts'
import { LABEL } from '../kernel/ownership.ts'
import { MEGABYTE, type Mount, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { type Docker, ignoring, TRANSFER_TIMEOUT_MS } from './client.ts'
import { type DockerEngine, labelsOf, nameOf } from './engine.ts'
import { type DockerLauncher, LAUNCHER_FOLDER } from './launcher.ts'
import type { ContainerLayers } from './layers.ts'

/** Additional processes in the container: the first process and the timer. */
const SPARE_PROCESSES = 2
const TMPFS = 'rw,exec,mode=1777'
/** The container itself, in which no name server answers. Only names of the sandbox network are resolved. */
const NO_NAME_SERVER = '127.0.0.1'

/**
 * Script of the first process. It waits for a line, so that ports are open and counters are watched before the command
 * begins, runs the command as its child with errors merged into the output, reaps orphans and passes the exit code on. The
 * trap keeps a SIGINT from the command from becoming the exit code; other signals do not reach a first process.
 */
const FIRST_PROCESS_SCRIPT = 'trap : INT; read -r go || exit; exec 2> /dev/null; "$@" 2>&1; exit $?'
const EXEC_SCRIPT = 'exec "$@" 2>&1'
/** Sets HOME. The engine sets it only for the user as which it starts the process, not for the user of the launcher. */
const SET_HOME = 'HOME=$1; export HOME; shift; '
const STANDARD_STREAMS = ['/proc/self/fd/0', '/proc/self/fd/1']

/**
 * Files that the engine mounts into every container, from a folder of its own. They cannot be removed or replaced, and
 * the size of a container does not include them.
 */
export const ENGINE_FILES = ['/etc/hostname', '/etc/hosts', '/etc/resolv.conf']

/** Builds the body of the engine's `containers/create`. */
export function buildContainerBody(
  engine: DockerEngine,
  spec: SandboxSpec,
  { image, identity }: { image: string; identity: SandboxIdentity },
): Record<string, unknown> {
  const { network, limits } = spec
  return {
    Image: image,
    Hostname: network?.names[0] ?? HOSTNAME,
    User: toEngineUser(identity, spec.user ?? spec.image.user),
    WorkingDir: spec.workdir ?? spec.image.workdir,
    Env: toEnvList({ ...spec.image.env, ...spec.env }),
    Entrypoint: buildFirstCommand(engine.launcher, spec, identity),
    Cmd: [],
    Healthcheck: { Test: ['NONE'] },
    Labels: labelsOf(engine, 'sandbox', {
      [LABEL.sandbox]: spec.id,
      [LABEL.deadline]: String(Date.now() + limits.seconds * 1000),
      ...(network ? { [LABEL.network]: network.sandboxNetwork.id } : {}),
    }),
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    OpenStdin: true,
    StdinOnce: true,
    Tty: false,
    HostConfig: buildHostConfig(engine, spec),
    ...(network ? { NetworkingConfig: toNetworkingConfig(engine, network) } : {}),
  }
}

export const toEnvList = (env: Record<string, string>): string[] =>
  Object.entries(env).map(([name, value]) => `${name}=${value}`)

const toNetworkingConfig = (engine: DockerEngine, { sandboxNetwork, names }: NonNullable<SandboxSpec['network']>) => ({
  EndpointsConfig: { [nameOf(engine, sandboxNetwork.id)]: { Aliases: names } },
})

function buildHostConfig(engine: DockerEngine, { limits, mounts, network, isAdoptable }: SandboxSpec) {
  const memory = limits.memoryMb * MEGABYTE
  return {
    ...buildIsolationSettings(limits.pids + SPARE_PROCESSES),
    ...(engine.launcher ? { Init: false, CapAdd: [...CAPABILITIES, FIRST_PROCESS_CAPABILITY] } : {}),
    ...(isAdoptable ? { LogConfig: toLogConfig(limits.outputBytes) } : {}),
    NetworkMode: network ? nameOf(engine, network.sandboxNetwork.id) : 'none',
    ...(network ? { Dns: [NO_NAME_SERVER], DnsSearch: ['.'], DnsOptions: ['timeout:1', 'attempts:1'] } : {}),
    // Memory plus swap has the same limit as memory, so swap is disabled.
    Memory: memory,
    MemorySwap: memory,
    ShmSize: limits.shmMb * MEGABYTE,
    // An engine without the controller ignores the other limits, but refuses a container with this one.
    NanoCpus: engine.limits.cpus ? Math.round(Math.min(limits.cpus, engine.cpus) * 1e9) : undefined,
    Mounts: [...listLauncherMounts(engine.launcher), ...mounts.flatMap((mount) => toMounts(engine, mount, network))],
    Tmpfs: Object.fromEntries(mounts.flatMap(toTmpfsEntries)),
  }
}

/** Log driver of adoptable sandboxes, from which the output of the command can be read again. */
export const ADOPTABLE_LOG = 'local'

/** The engine keeps two files of at most this size, in which each line has a header. The older one is overwritten. */
const toLogConfig = (outputBytes: number) => ({
  Type: ADOPTABLE_LOG,
  Config: { 'max-size': String(outputBytes), 'max-file': '2', compress: 'false' },
})

/** Returns the user that the engine starts a process as. Numeric ids need no entry in the account files. */
export const toEngineUser = (identity: SandboxIdentity, user: string | number): string =>
  identity ? '0:0' : String(user).replaceAll(/\broot\b/g, '0')

/** Returns the settings of every container, including those that run nothing of a task. */
export const buildIsolationSettings = (pids: number) => ({
  Init: true,
  CapDrop: ['ALL'],
  CapAdd: CAPABILITIES,
  SecurityOpt: ['no-new-privileges'],
  PidsLimit: pids,
  // Output is read through the attached stream, which is limited. A log of the engine would have no limit.
  LogConfig: { Type: 'none' },
  CgroupnsMode: 'private',
  IpcMode: 'private',
})

const listLauncherMounts = (launcher: DockerLauncher | undefined) =>
  launcher === undefined
    ? []
    : [
        {
          Type: 'volume',
          Source: launcher.volume,
          Target: LAUNCHER_FOLDER,
          ReadOnly: true,
          VolumeOptions: { NoCopy: true },
        },
      ]

function toMounts(engine: DockerEngine, mount: Mount, network: SandboxSpec['network']): Record<string, unknown>[] {
  if (mount.kind === 'tmpfs') return []
  const target = { Target: mount.target, ReadOnly: mount.readOnly }
  if (mount.kind === 'folder') {
    return [{ ...target, Type: 'bind', Source: mount.source, BindOptions: { Propagation: 'rprivate' } }]
  }
  const id = network?.sandboxNetwork.id ?? ''
  const Labels = labelsOf(engine, 'network', { [LABEL.network]: id })
  return [{ ...target, Type: 'volume', Source: nameOf(engine, id, mount.name), VolumeOptions: { Labels } }]
}

function toTmpfsEntries(mount: Mount): [string, string][] {
  if (mount.kind !== 'tmpfs') return []
  return [[mount.target, mount.sizeMb === null ? TMPFS : `${TMPFS},size=${mount.sizeMb}m`]]
}

function buildFirstCommand(
  launcher: DockerLauncher | undefined,
  spec: SandboxSpec,
  identity: SandboxIdentity,
): string[] {
  const { command } = spec
  const seconds = String(computeSelfEndSeconds(spec))
  // A sandbox without a command runs until its time limit.
  if (launcher === undefined) return command ?? ['sleep', seconds]
  if (command === null)
    return launcher.toCommand('sh', '-c', FIRST_PROCESS_SCRIPT, 'init', ...launcher.toCommand('sleep', seconds))
  const env = { ...spec.image.env, ...spec.env }
  return buildLaunchedCommand(launcher, { script: FIRST_PROCESS_SCRIPT, command, seconds, identity, env })
}

type ExecCommandOptions = { command: string[]; seconds: number; identity: SandboxIdentity; env: Record<string, string> }

/** Returns the command line of a command that is added to a running sandbox. */
export const buildExecCommand = (launcher: DockerLauncher | undefined, exec: ExecCommandOptions): string[] =>
  launcher === undefined
    ? exec.command
    : buildLaunchedCommand(launcher, { ...exec, script: EXEC_SCRIPT, seconds: String(Math.ceil(exec.seconds) + 1) })

type LaunchedCommandOptions = Omit<ExecCommandOptions, 'seconds'> & { script: string; seconds: string }

/** Builds a command line that runs the command as its user, without the capability that only the first process keeps. */
function buildLaunchedCommand(
  launcher: DockerLauncher,
  { script, command, seconds, identity, env }: LaunchedCommandOptions,
): string[] {
  const home = identity && env.HOME === undefined ? [identity.home] : []
  const rights = ['--inh-caps', '-all', '--bounding-set', formatBoundingSet(CAPABILITIES)]
  const asUser = launcher.toCommand('setpriv', ...toSetprivOptions(identity), ...rights, '--', ...command)
  // The engine gives the standard streams to root, because it starts the process as root.
  const shareStreams = identity
    ? `${launcher.toCommand('chmod', '666', ...STANDARD_STREAMS).join(' ')} 2> /dev/null; `
    : ''
  const fullScript = `${home.length > 0 ? SET_HOME : ''}${shareStreams}${script}`
  const limited = launcher.toCommand('timeout', '-s', 'KILL', seconds, ...asUser)
  return launcher.toCommand('sh', '-c', fullScript, 'init', ...home, ...limited)
}

function toSetprivOptions(identity: SandboxIdentity): string[] {
  if (identity === undefined) return []
  const { uid, gid, groups = [gid] } = identity
  return ['--reuid', String(uid), '--regid', String(gid), '--groups', groups.join(',')]
}

/** A file, folder or link of a container. `link` is the target of a link. */
type ContainerPath = { isFolder: boolean; isLink: boolean; isFile: boolean; bytes: number; link: string }

/** Numbers of the bits for folders and links in Go's file modes. */
const FOLDER_BIT = 31
const LINK_BIT = 27
/** Folder, link, device, pipe, socket, character device and irregular. A regular file has none of these bits. */
const TYPE_BITS = [FOLDER_BIT, LINK_BIT, 26, 25, 24, 21, 19]

/** Reports whether a bit is set. The operator `&` would take bit 31 for a sign. */
const hasBit = (mode: number, bit: number): boolean => Math.floor(mode / 2 ** bit) % 2 === 1

/**
 * Asks the engine for the type and size of a path of a container. A link in the last part of the path is not followed,
 * links before it are. Returns undefined if the path does not exist.
 */
export async function statIn(docker: Docker, containerId: string, path: string): Promise<ContainerPath | undefined> {
  const answer = await docker
    .open('HEAD', `/containers/${containerId}/archive`, { query: { path } })
    .catch(ignoring(404, 400))
  answer?.resume()
  const header = answer?.headers['x-docker-container-path-stat']
  if (typeof header !== 'string') return undefined
  const { mode, size, linkTarget } = JSON.parse(Buffer.from(header, 'base64').toString())
  return {
    isFolder: hasBit(mode, FOLDER_BIT),
    isLink: hasBit(mode, LINK_BIT),
    isFile: !TYPE_BITS.some((bit) => hasBit(mode, bit)),
    bytes: Number(size),
    link: String(linkTarget ?? ''),
  }
}

/** Reports whether a container runs. Returns false if it does not exist. */
export async function isContainerRunning(docker: Docker, nameOrId: string): Promise<boolean> {
  type ContainerState = { State: { Running: boolean } }
  const found = await docker.call<ContainerState>('GET', `/containers/${nameOrId}/json`).catch(ignoring(404))
  return found?.State.Running === true
}

export type OpenPorts = {
  close(): Promise<void>
  /** Closes the ports in this process only, so that another one can open them again. */
  leave(): Promise<void>
}

/** A running container with its resources. */
export type RunningContainer = {
  engine: DockerEngine
  spec: SandboxSpec
  container: Container
  /** Seconds since the start of the command. */
  elapsedSeconds: number
  stream: Readable
  /** Resolves when the output has ended. */
  output: Promise<{ bytes: number }>
  ports: OpenPorts
  refusedProcesses: RefusedProcesses
}

export type Container = {
  id: string
  /** Process id of the first process; 0 if it is not visible on this machine. */
  pid: number
  /** Undefined if the layers cannot be read. */
  layers: ContainerLayers | undefined
  /** Paths of ENGINE_FILES on this machine. Empty where they cannot be read. */
  engineFiles: string[]
  /** Folders of its writable volumes on this machine. Empty where they cannot be read. */
  volumes: string[]
}

const DRAFT_TIMEOUT_MS = 10 * 60_000
const DRAFT_CLOSE_TIMEOUT_MS = 30_000
const DRAFT_PROCESSES_MAX = 32

type DraftContainer = {
  image: string
  /** Null when the container is created and not started. */
  command: string[] | null
  /** Writes to its files before it starts. */
  fill?: ((id: string) => Promise<unknown>) | undefined
}

/** Calls `use` with a temporary container in which only trusted programs run. The container is always removed. */
export async function withDraft<T>(
  engine: DockerEngine,
  { image, command, fill }: DraftContainer,
  use: (id: string) => Promise<T>,
): Promise<T> {
  const { docker, launcher } = engine
  const body = {
    Image: image,
    User: '0:0',
    // The engine requires an entrypoint, also for a container that is never started.
    Entrypoint: command ?? ['/'],
    Labels: labelsOf(engine, 'draft', { [LABEL.deadline]: String(Date.now() + DRAFT_TIMEOUT_MS) }),
    Healthcheck: { Test: ['NONE'] },
    HostConfig: {
      ...buildIsolationSettings(DRAFT_PROCESSES_MAX),
      NetworkMode: 'none',
      Mounts: listLauncherMounts(launcher),
    },
  }
  const { Id } = await docker.call<{ Id: string }>('POST', '/containers/create', { body })
  try {
    await fill?.(Id)
    if (command !== null) await runDraft(engine, Id)
    return await use(Id)
  } finally {
    await docker.call('DELETE', `/containers/${Id}`, { query: { force: true, v: true } }).catch(ignoring(404))
  }
}

async function runDraft({ docker }: DockerEngine, id: string): Promise<void> {
  const stream = await docker.attach(`/containers/${id}/attach`, { query: { stream: 1, stdout: 1, stderr: 1 } })
  const output = text(Readable.from(stream))
  await docker.call('POST', `/containers/${id}/start`)
  const { StatusCode } = await docker.call<{ StatusCode: number }>('POST', `/containers/${id}/wait`, {
    timeoutMs: DRAFT_TIMEOUT_MS,
  })
  if (!stream.readableEnded) await once(stream, 'close', { signal: AbortSignal.timeout(DRAFT_CLOSE_TIMEOUT_MS) })
  if (StatusCode !== 0) throw new SandboxUnavailable(`An image could not be changed: ${(await output).trim()}`)
}

/** Commits the files of a container as an image. An image without a name is found by its labels. */
export async function commitImage(
  { docker }: DockerEngine,
  container: string,
  name: { repo: string; tag: string } | undefined,
  labels: Record<string, string>,
): Promise<string> {
  const query = { container, pause: false, ...name }
  const { Id } = await docker.call<{ Id: string }>('POST', '/commit', {
    query,
    body: { Labels: labels },
    timeoutMs: TRANSFER_TIMEOUT_MS,
  })
  return Id
}

import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { Outage } from '../platform/errors.ts'

/** Capabilities of a provider on this machine, detected by trying them. Stored with every trial. */
export type Capabilities = {
  /** Isolation between the sandbox and this machine, for example `runc`, `bwrap`, `docker:runc`, `docker:runsc`. */
  isolation: string
  /**
   * How connections to ports of a sandbox's loopback reach this process. `namespace`: this process listens in the network
   * namespace of the sandbox. `relay`: a program beside the sandbox forwards them. `none`: sandboxes can have no ports.
   */
  gatewayChannel: 'none' | 'namespace' | 'relay'
  /** True for limits that the kernel enforces. `disk` is `hard` then, and `watched` if the provider measures it at intervals. */
  limits: { cpus: boolean; memory: boolean; pids: boolean; disk: 'hard' | 'watched' | 'none' }
  /** True when sandboxes can share a network, as the services of a compose file do. */
  networks: boolean
  /** True when sandboxes of a network can share volumes. */
  volumes: boolean
}

/** Runs sandboxes. Each provider is one file of this folder; the conformance suite defines what all must do. */
export type SandboxProvider = {
  name: string
  /** Tests the provider on this machine. Throws SandboxUnavailable with the fix. */
  selfTest(): Promise<Capabilities>
  /** Builds or finds an image, once for the same content. */
  prepare(source: ImageSource, options: PrepareOptions): Promise<Image>
  /**
   * Removes an image that `prepare` built, with the layers that no other image has. An image that is in use or does not
   * exist is left alone. `prepare` builds it again.
   */
  discard(image: Image): Promise<void>
  /** Creates a sandbox network. The id is unique, and safe as a file name. */
  openNetwork(id: string): Promise<SandboxNetwork>
  start(spec: SandboxSpec): Promise<Sandbox>
  /**
   * Continues a sandbox that another process started with `isAdoptable`, and that this process describes in the same
   * way; uploads and the base filesystem are not read. The command may have ended meanwhile. Returns undefined if there is
   * no such sandbox. Not set if the sandboxes of the provider end with their process.
   */
  adopt?(spec: SandboxSpec): Promise<Sandbox | undefined>
  /**
   * Removes sandboxes of this installation that are past their deadline or belong to no live process, except those
   * that another process may still adopt. Safe at any time.
   */
  reap(adoptableIds?: ReadonlySet<string>): Promise<number>
}

/** Source of an image. Folders are on this machine. */
export type ImageSource =
  /** Files of the folder, if there is one, are copied into the working directory. */
  | { kind: 'prebuilt'; name: string; folder: string | null; workdir: string | null }
  /** The Dockerfile's path is relative to the context. `target` is the stage at which the build stops. */
  | { kind: 'dockerfile'; context: string; dockerfile: string; target: string | null; args: Record<string, string> }

export type PrepareOptions = {
  signal: AbortSignal
  timeoutSec: number
  onLog: (line: string) => void
  /** Limits of a build. Default: `DEFAULT_LIMITS`. */
  limits?: BuildLimits
  /** True if the default command of the image will be run, which some providers can find out only with more work. */
  needsCommand?: boolean | undefined
  /** True if other builds begin with the layers of this image. Such an image is evicted after all others. */
  isShared?: boolean | undefined
}

export type BuildLimits = Pick<SandboxLimits, 'cpus' | 'memoryMb' | 'diskMb'>

/** A base filesystem with the settings of its Dockerfile, identified by the digest of its sources. */
export type Image = {
  digest: string
  workdir: string
  user: string
  env: Record<string, string>
  /** Default command of the image, together with `command`. Run only if the command of a sandbox includes it. */
  entrypoint: string[]
  command: string[]
  /** True if the provider cannot read the default command, so that `entrypoint` and `command` are empty. */
  isCommandUnknown?: boolean | undefined
  /** `host-base`: the machine's own system files stand in for a base image. */
  base: 'image' | 'host-base'
  /**
   * Reference of exactly this image in a registry, `name@sha256:…`. Not set when it did not come from a registry or
   * this is unknown.
   */
  registryName?: string
}

/** Sandboxes that find each other by name, and reach nothing else. */
export type SandboxNetwork = {
  id: string
  /** Releases the network and its volumes. Its sandboxes must have been removed before. Idempotent. */
  remove(): Promise<void>
}

/** Initial files of a sandbox: the image alone, or the image with files of an earlier sandbox. */
export type BaseFilesystem =
  | { kind: 'image' }
  /**
   * The image with these files and folders of the earlier sandbox, through the filter of `collect`. The earlier sandbox
   * may have another image. Nothing at or under `without` is taken from it; files of the image may be there.
   */
  | { kind: 'workspace'; from: StoppedSandbox; paths: string[]; without?: string[] }
  /** The image with all changes of the earlier sandbox except those under `without`. The image must be the same. */
  | { kind: 'snapshot'; from: StoppedSandbox; without: string[] }

/**
 * A tar that is unpacked into a folder of the sandbox before it starts, replacing existing files. The folder is created
 * if it is missing.
 */
export type SandboxUpload = { target: string; tar: Readable }

/** `isImmutable`: the folder's content never changes, so that copies of it may be kept. */
export type Mount =
  | { kind: 'folder'; source: string; target: string; readOnly: boolean; isImmutable?: boolean }
  /** A volume of the sandbox's network, created at first use with what the image has there. */
  | { kind: 'volume'; name: string; target: string; readOnly: boolean }
  | { kind: 'tmpfs'; target: string; sizeMb: number | null }

/** A port of the sandbox's own loopback. */
export type Port = {
  port: number
  /** Called for each connection to the port, unless connections are resumable. */
  onConnection: (socket: Socket) => void
  /**
   * Called in adoptable sandboxes for each pipe that carries a resumable connection, see
   * `resumable-protocol.ts`.
   */
  onPipe?: ((socket: Socket) => void) | undefined
}

/** Number of bytes that limits in MB count as one. */
export const MEGABYTE: number = 1024 * 1024

/** Every sandbox has all limits. `Capabilities.limits` tells which of them the kernel enforces on this machine. */
export type SandboxLimits = {
  cpus: number
  memoryMb: number
  /** Size of /dev/shm, which counts as memory too. */
  shmMb: number
  pids: number
  diskMb: number
  /** Maximum of standard output and error together. The rest is dropped and counted. */
  outputBytes: number
  seconds: number
}

export type SandboxSpec = {
  /** Unique, and safe as a file name. A second start with the same id is an error. */
  id: string
  image: Image
  baseFilesystem: BaseFilesystem
  uploads: SandboxUpload[]
  /** Null for a sandbox that runs only what `exec` starts, until it is killed or reaches its time limit. */
  command: string[] | null
  /** True if `exec` will be used, which has a small cost. Without a command `exec` can always be used. */
  usesExec: boolean
  /**
   * True if another process may adopt the sandbox after this one has died or left it. Requires a command, and the image as
   * base filesystem. Ignored where this is impossible.
   */
  isAdoptable?: boolean | undefined
  /** Null for the image's default. */
  user: string | number | null
  workdir: string | null
  env: Record<string, string>
  mounts: Mount[]
  /**
   * Network of the sandbox, and the names under which its other members find this one; the first is its host name. Null
   * for no network at all.
   */
  network: { sandboxNetwork: SandboxNetwork; names: string[] } | null
  ports: Port[]
  limits: SandboxLimits
  /** Written to the process's standard input, which then ends. */
  input: string | Buffer
  /** File for standard output and error in order, up to `limits.outputBytes`. */
  outputFile: string
}

export type ExecSpec = Pick<SandboxSpec, 'user' | 'workdir' | 'env' | 'input' | 'outputFile'> & {
  command: string[]
  limits: Pick<SandboxLimits, 'outputBytes' | 'seconds'>
}

export type Sandbox = {
  id: string
  /** Resolves when the command has ended or a limit ended it. All processes of the sandbox are dead by then. */
  exited: Promise<Exit>
  /** Kills every process of the sandbox, after which `exited` resolves. A no-op if the sandbox has ended. */
  kill(): Promise<void>
  /**
   * Runs another command while the sandbox runs. Processes of a command that timed out may continue until the sandbox
   * ends. The output is untrusted once an agent has run in the sandbox.
   */
  exec(spec: ExecSpec): Promise<Exit>
  /** Files of the sandbox. Can be used after `exited` only. */
  stopped: StoppedSandbox
  /** Releases everything: files, mounts, cgroups. Idempotent. */
  remove(): Promise<void>
  /**
   * Leaves the sandbox to the process that adopts it. Afterwards nothing else may be used, `exited` rejects, and `remove`
   * does nothing. Not set if the sandbox is not adoptable.
   */
  leave?(): Promise<void>
}

export type LimitKind = 'seconds' | 'memory' | 'pids' | 'disk' | 'output'

export type Exit = {
  /**
   * Exit code as shells report it: 128 and the signal number, 127 and 126 for a command that cannot be run. Null when
   * the provider ended it.
   */
  code: number | null
  /** The limit that ended the command or explains its failure. `output`: the output was truncated. */
  limit: LimitKind | null
  /** Resource that processes of the command ran out of, even if it succeeded. Omitted if there was none. */
  starvedOf?: 'memory' | 'disk' | 'pids' | undefined
  seconds: number
  outputBytes: number
}

/**
 * Limits of a collected tar. With `keepsHardLinks`, further names of a file are hard links, which do not count towards the
 * bytes. Otherwise they are copies.
 */
export type CollectCaps = { files: number; bytes: number; keepsHardLinks?: boolean | undefined }

/** The filesystem of a dead sandbox, read from outside: nothing of it is executed, links are not followed. */
export type StoppedSandbox = {
  sandboxId: string
  /**
   * Returns a tar of a file or folder: regular files, folders, and relative links that stay inside. Everything else is
   * left out and listed. Undefined if the path does not exist.
   */
  collect(path: string, caps: CollectCaps): Promise<{ tar: Readable; leftOut: string[] } | undefined>
  /** Lists what differs from the image, in no particular order. A path may be listed more than once. */
  changes(): AsyncIterable<FileChange>
}

/**
 * A path that differs from the image. `folder`: the image has no such folder; everything below it is listed too. Folders
 * of which only the owner or the rights differ are not listed.
 */
export type FileChange = {
  path: string
  kind: 'file' | 'folder' | 'deleted'
  /** The name is not UTF-8, or the path is too long to be read: `path` is not exact, or nothing below it is listed. */
  isUnreadable?: true
}

/**
 * Thrown when the provider failed, not the command: the daemon does not answer, a mount failed, the image is unavailable.
 * Never counts as a result of the command.
 */
export class SandboxUnavailable extends Outage {
  override name = 'SandboxUnavailable'
}

/** Thrown when the engine does not answer. It may be restarting, so the same request can succeed in a moment. */
export class SandboxUnreachable extends SandboxUnavailable {
  override name = 'SandboxUnreachable'
}

/** Thrown when an image was not ready within its timeout. */
export class ImageTimeout extends SandboxUnavailable {
  override name = 'ImageTimeout'
}

/** Thrown when a task requires a feature that this provider does not support. The message names the feature. */
export class SandboxUnsupported extends Error {
  override name = 'SandboxUnsupported'
}

/**
 * Kills the sandbox when the signal aborts, unless it has ended. Errors of `kill` are ignored, because an unreachable
 * engine also rejects `exited`.
 */
export function killOnAbort({ kill, exited }: Pick<Sandbox, 'kill' | 'exited'>, signal: AbortSignal): void {
  const stop = () => void kill().catch(() => {})
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  const forget = () => signal.removeEventListener('abort', stop)
  exited.then(forget, forget)
}

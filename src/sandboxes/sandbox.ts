import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import type { Environment } from '../harbor/task.ts'

/** What a provider can really do on this machine, found out by trying. Stored with every trial. */
export type Capabilities = {
  /** What stands between the sandbox and this machine, for example `runc`, `bwrap`, `docker:runc`, `docker:runsc`. */
  isolation: string
  /** How a sandbox without a network reaches the gateway: not at all, or by a port on its own loopback. */
  gatewayChannel: 'none' | 'namespace' | 'relay'
  /** Networks that a task can ask for besides none. */
  networks: ('public' | 'allowlist')[]
  /** Which limits the kernel holds; the others are watched from outside, or not at all. */
  limits: { cpus: boolean; memory: boolean; pids: boolean; disk: 'hard' | 'watched' | 'none' }
  /** Sidecars of a compose file. */
  compose: boolean
}

/** One way to run sandboxes. Files of this folder each make one; the conformance suite says what all must do. */
export type Provider = {
  name: string
  /** Tries itself out on this machine. Throws SandboxUnavailable, with what to do about it. */
  selfTest(): Promise<Capabilities>
  /** Builds or finds the image of an environment, once for the same content. `folder` is the task's. */
  prepare(environment: Environment, folder: string, options: PrepareOptions): Promise<Image>
  start(spec: SandboxSpec): Promise<Sandbox>
  /** Removes whatever sandboxes of this installation are past their deadline or belong to no live process. Safe at any time. */
  reap(): Promise<number>
}

export type PrepareOptions = { signal: AbortSignal; onLog: (line: string) => void }

/** A filesystem to start from, by the digest of what it was made of, with the settings that its Dockerfile gave it. */
export type Image = {
  digest: string
  workdir: string
  user: string
  env: Record<string, string>
  /** `host-base`: the machine's own system files stand in for a base image. */
  base: 'image' | 'host-base'
}

/** Where a sandbox's files come from: the image alone, or an image with what an earlier sandbox left. */
export type Seed =
  | { kind: 'image' }
  /** Only these folders of the earlier sandbox, through the filter of `collect`. */
  | { kind: 'workspace'; from: Remains; paths: string[] }
  /** All its changes but those under these paths. */
  | { kind: 'snapshot'; from: Remains; without: string[] }

export type Mount = { source: string; target: string; readOnly: boolean }

export type Limits = {
  cpus: number | null
  memoryMb: number | null
  pids: number
  diskMb: number | null
  /** Of standard output and error together. What comes after is dropped, and counted. */
  outputBytes: number
  seconds: number
}

export type SandboxSpec = {
  /** Unique, and safe as a file name. A second start with the same id is an error. */
  id: string
  image: Image
  seed: Seed
  command: string[]
  /** Null: the image's. */
  user: string | number | null
  workdir: string | null
  env: Record<string, string>
  mounts: Mount[]
  network: { kind: 'none' } | { kind: 'public' } | { kind: 'allowlist'; hosts: string[] }
  /** Connections that the sandbox makes to its own 127.0.0.1:port arrive here. */
  gateway: { port: number; onConnection: (socket: Socket) => void } | null
  limits: Limits
  /** Written to the process's standard input, which then ends. */
  input: string
  /** Where output goes, up to `limits.outputBytes`: standard output and error as they come. */
  outputFile: string
}

export type Sandbox = {
  id: string
  /** The command has ended, or a limit ended it. All processes of the sandbox are dead by then. */
  exited: Promise<Exit>
  /** Kills every process in it, at once. `exited` follows. Harmless when it has ended. */
  kill(): Promise<void>
  /** What it left on its filesystem. Only after `exited`. */
  remains: Remains
  /** Gives back everything: files, mounts, cgroups. Harmless twice. */
  remove(): Promise<void>
}

export type LimitKind = 'seconds' | 'memory' | 'pids' | 'disk' | 'output'

export type Exit = {
  /** As shells say it: 128 and its number when a signal ended it, 127 and 126 for no such command. Null when we ended it. */
  code: number | null
  /** The limit that ended it, or that it ran into and that explains its failure. `output`: more came than was kept. */
  limit: LimitKind | null
  seconds: number
  outputBytes: number
}

/** The filesystem of a dead sandbox, read from outside: nothing of it is executed, links are not followed. */
export type Remains = {
  sandboxId: string
  /**
   * A tar of a file or folder: regular files, folders, and relative links that stay inside. Everything else is left
   * out and named. Undefined when there is nothing at that path.
   */
  collect(
    path: string,
    caps: { files: number; bytes: number },
  ): Promise<{ tar: Readable; leftOut: string[] } | undefined>
}

/** The provider broke, not the command: the daemon is gone, a mount failed, the image cannot be had. Never a verdict. */
export class SandboxUnavailable extends Error {
  override name = 'SandboxUnavailable'
}

/** The task asks for something that this provider does not do. Named, and never guessed at. */
export class SandboxUnsupported extends Error {
  override name = 'SandboxUnsupported'
}

import { CAPABILITIES, HOSTNAME } from '../kernel/agent-rights.ts'
import type { Mount, SandboxSpec } from '../sandbox.ts'
import { type Engine, labelsOf, nameOf } from './engine.ts'
import { LABEL } from './labels.ts'
import { LAUNCHER_FOLDER, type Launcher } from './launcher.ts'

const MEGABYTE = 1024 * 1024
/** The engine's own first process, and what keeps the time. */
const SPARE_PROCESSES = 2
/** After this much more than its time it ends even when nobody is left to end it. */
const SPARE_SECONDS = 10
const TMPFS = 'rw,exec,mode=1777'
/** Where nothing answers: a name that is not of the group is asked for in the container itself. */
const NO_NAME_SERVER = '127.0.0.1'

/** Waits for a line, so that ports are open and counters are watched before the command begins. Errors go with output. */
const GATE = 'read -r go && exec "$@" 2>&1'
const MERGED = 'exec "$@" 2>&1'

/** A body for the engine's `containers/create`. */
export function containerOf(engine: Engine, spec: SandboxSpec, image: string): Record<string, unknown> {
  const { group, limits } = spec
  return {
    Image: image,
    Hostname: group?.names[0] ?? HOSTNAME,
    User: String(spec.user ?? spec.image.user),
    WorkingDir: spec.workdir ?? spec.image.workdir,
    Env: variables({ ...spec.image.env, ...spec.env }),
    Entrypoint: firstWords(engine.launcher, spec),
    Cmd: [],
    Healthcheck: { Test: ['NONE'] },
    Labels: labelsOf(engine, 'sandbox', {
      [LABEL.sandbox]: spec.id,
      [LABEL.deadline]: String(Date.now() + limits.seconds * 1000),
      ...(group ? { [LABEL.group]: group.group.id } : {}),
    }),
    ...{ AttachStdin: true, AttachStdout: true, AttachStderr: true, OpenStdin: true, StdinOnce: true, Tty: false },
    HostConfig: hostConfig(engine, spec),
    ...(group ? { NetworkingConfig: joining(engine, group) } : {}),
  }
}

export const variables = (env: Record<string, string>): string[] =>
  Object.entries(env).map(([name, value]) => `${name}=${value}`)

const joining = (engine: Engine, { group, names }: NonNullable<SandboxSpec['group']>) => ({
  EndpointsConfig: { [nameOf(engine, group.id)]: { Aliases: names } },
})

function hostConfig(engine: Engine, { limits, mounts, group }: SandboxSpec) {
  const memory = limits.memoryMb === null ? undefined : limits.memoryMb * MEGABYTE
  return {
    ...isolated(limits.pids + SPARE_PROCESSES),
    NetworkMode: group ? nameOf(engine, group.group.id) : 'none',
    ...(group ? { Dns: [NO_NAME_SERVER], DnsSearch: ['.'], DnsOptions: ['timeout:1', 'attempts:1'] } : {}),
    // Swap is counted with it, and so there is none.
    ...(memory === undefined ? {} : { Memory: memory, MemorySwap: memory }),
    ...(limits.cpus === null ? {} : { NanoCpus: Math.round(Math.min(limits.cpus, engine.cpus) * 1e9) }),
    Mounts: [...launcherMounts(engine.launcher), ...mounts.flatMap((mount) => bindOf(engine, mount, group))],
    Tmpfs: Object.fromEntries(mounts.flatMap(tmpfsOf)),
  }
}

/** What every container of ours has, also those that run nothing of a task. */
export const isolated = (pids: number) => ({
  Init: true,
  CapDrop: ['ALL'],
  CapAdd: CAPABILITIES,
  SecurityOpt: ['no-new-privileges'],
  PidsLimit: pids,
  // What it writes goes through our hands and its limit. A log of the engine's would have none.
  LogConfig: { Type: 'none' },
  CgroupnsMode: 'private',
  IpcMode: 'private',
})

export const launcherMounts = (launcher: Launcher | undefined) =>
  launcher === undefined
    ? []
    : [
        {
          ...{ Type: 'volume', Source: launcher.volume, Target: LAUNCHER_FOLDER, ReadOnly: true },
          VolumeOptions: { NoCopy: true },
        },
      ]

function bindOf(engine: Engine, mount: Mount, group: SandboxSpec['group']): Record<string, unknown>[] {
  if (mount.kind === 'tmpfs') return []
  const place = { Target: mount.target, ReadOnly: mount.readOnly }
  if (mount.kind === 'folder') {
    return [{ ...place, Type: 'bind', Source: mount.source, BindOptions: { Propagation: 'rprivate' } }]
  }
  const id = group?.group.id ?? ''
  const Labels = labelsOf(engine, 'group', { [LABEL.group]: id })
  return [{ ...place, Type: 'volume', Source: nameOf(engine, id, mount.name), VolumeOptions: { Labels } }]
}

function tmpfsOf(mount: Mount): [string, string][] {
  if (mount.kind !== 'tmpfs') return []
  return [[mount.target, mount.sizeMb === null ? TMPFS : `${TMPFS},size=${mount.sizeMb}m`]]
}

function firstWords(launcher: Launcher | undefined, { command, limits }: SandboxSpec): string[] {
  const seconds = String(Math.ceil(limits.seconds) + SPARE_SECONDS)
  // A sandbox without a command lives on the time that is left.
  if (launcher === undefined) return command ?? ['sleep', seconds]
  if (command === null) return launcher.words('sh', '-c', GATE, 'gate', ...launcher.words('sleep', seconds))
  return launcher.words('sh', '-c', GATE, 'gate', ...launcher.words('timeout', '-s', 'KILL', seconds, ...command))
}

/** What goes before a command that is brought into a sandbox that runs. */
export const execWords = (launcher: Launcher | undefined, command: string[], seconds: number): string[] =>
  launcher === undefined
    ? command
    : launcher.words(
        ...['sh' as const, '-c', MERGED, 'exec'],
        ...launcher.words('timeout', '-s', 'KILL', String(Math.ceil(seconds) + 1), ...command),
      )

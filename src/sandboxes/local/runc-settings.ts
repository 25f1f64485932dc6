import { join } from 'node:path'
import { CAPABILITIES, FIRST_PROCESS_CAPABILITY } from '../kernel/agent-rights.ts'
import type { Launch, LaunchMount } from './launch.ts'
import { initWords, LAUNCHER, launcherWords } from './launcher.ts'
import { seccompSettings } from './seccomp.ts'
import { line, quote } from './shell.ts'

const MASKED = [
  ...['/proc/acpi', '/proc/asound', '/proc/kcore', '/proc/keys', '/proc/latency_stats', '/proc/timer_list'],
  ...['/proc/timer_stats', '/proc/sched_debug', '/proc/scsi', '/sys/firmware', '/sys/devices/virtual/powercap'],
]
const READ_ONLY = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

const mount = (type: string, destination: string, ...options: string[]): object => ({
  destination,
  type,
  source: type,
  options,
})

const bind = (source: string, destination: string, readOnly: boolean): object => ({
  destination,
  type: 'bind',
  source,
  options: ['bind', 'nosuid', 'nodev', ...(readOnly ? ['ro'] : [])],
})

const mountOf = (wish: LaunchMount): object =>
  wish.kind === 'folder'
    ? bind(wish.source, wish.target, wish.readOnly)
    : mount(
        'tmpfs',
        wish.target,
        'nosuid',
        'nodev',
        'mode=1777',
        ...(wish.sizeMb === null ? [] : [`size=${wish.sizeMb}m`]),
      )

const MOUNTS = [
  mount('proc', '/proc', 'nosuid', 'noexec', 'nodev'),
  mount('tmpfs', '/dev', 'nosuid', 'strictatime', 'mode=755', 'size=65536k'),
  mount('devpts', '/dev/pts', 'nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620'),
  mount('mqueue', '/dev/mqueue', 'nosuid', 'noexec', 'nodev'),
  mount('sysfs', '/sys', 'nosuid', 'noexec', 'nodev', 'ro'),
]

const NAMESPACES = ['pid', 'ipc', 'uts', 'mount', 'cgroup']

/** The first descriptor that runc passes on. */
export const PRESERVED_FD = 3

const OUTPUT = join(LAUNCHER, 'output')

/** The OCI settings of a sandbox: the same walls as bubblewrap's, in the words of runc. */
export function runcSettings(launch: Launch): object {
  const { host, spec, folder, root, account, workdir, env, binds } = launch
  // Only the first process keeps the last one: setpriv gives it up for the command.
  const capabilities = [...CAPABILITIES, FIRST_PROCESS_CAPABILITY].map((name) => `CAP_${name}`)
  return {
    ociVersion: '1.0.2',
    hostname: launch.hostname,
    root: { path: root, readonly: false },
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: [
        ...initWords(host.launcher, PRESERVED_FD, OUTPUT),
        ...launcherWords(host.launcher, account, CAPABILITIES),
        ...launch.command,
      ],
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      cwd: workdir,
      noNewPrivileges: true,
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    },
    mounts: [
      ...MOUNTS,
      mount('tmpfs', '/dev/shm', 'nosuid', 'noexec', 'nodev', 'mode=1777', `size=${spec.limits.shmMb}m`),
      ...binds.map((path) => bind(path, path, true)),
      ...launch.launcherFiles.map(({ source, target }) => bind(source, target, true)),
      bind(join(folder, 'output'), OUTPUT, false),
      ...launch.mounts.map(mountOf),
    ],
    hooks: hooksOf(launch),
    linux: {
      cgroupsPath: `/assay-${spec.id}`,
      // A member of a group begins in its network.
      namespaces: [...NAMESPACES, ...(spec.network === null ? ['network'] : [])].map((type) => ({ type })),
      resources: { devices: [{ allow: false, access: 'rwm' }] },
      seccomp: seccompSettings(host.machine),
      maskedPaths: MASKED,
      readonlyPaths: READ_ONLY,
    },
  }
}

/** Ports are opened in much less. */
const HOLD_S = 60

/** Holds the command up, with its network made, until its ports are open. */
function hooksOf({ spec, folder }: Launch): object {
  if (spec.ports.length === 0) return {}
  const script = `: > ${quote(join(folder, 'created'))}; ${line('head', '-c', '1', join(folder, 'gate'))} > /dev/null`
  return {
    createRuntime: [{ path: '/bin/sh', args: ['sh', '-c', script], env: ['PATH=/usr/bin:/bin'], timeout: HOLD_S }],
  }
}

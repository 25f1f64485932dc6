import { access, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { CAPABILITIES, FIRST_PROCESS_CAPABILITY } from '../kernel/accounts.ts'
import { listProcesses } from '../kernel/cgroup.ts'
import { parseExitCode } from '../kernel/exit.ts'
import { withDeadline } from '../kernel/namespace-process.ts'
import { findProcess, type ProcessMark } from '../kernel/ownership.ts'
import { quote, renderCommand } from '../kernel/shell.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { openGate } from './bwrap.ts'
import {
  hasStarted,
  type LaunchedSandbox,
  type LaunchMount,
  type LaunchPlan,
  START_TIMEOUT_MS,
  STARTED_FILE,
} from './launch.ts'
import { buildInitArgs, buildLauncherArgs, LAUNCHER, listHidden } from './launcher.ts'
import { openInput } from './process-io.ts'
import { buildOciFilter } from './seccomp.ts'

const POLL_MS = 3

/** Runs the command under runc. The namespace process is busy until the command ends. */
export async function launchRunc(launch: LaunchPlan): Promise<LaunchedSandbox> {
  const { namespaceProcess, spec, folder } = launch
  await writeFile(join(folder, 'config.json'), JSON.stringify(buildRuncSettings(launch)), { mode: 0o600 })
  const input = await openInput(join(folder, 'input'), spec.input)

  let isOver = false
  const ended = namespaceProcess.run(buildScript(launch)).then(async ({ code, text }) => {
    isOver = true
    const logErrors = await readLogErrors(folder)
    return {
      code: logErrors === '' ? parseExitCode(String(code)) : undefined,
      errorOutput: `${text}${logErrors}`,
      hasStarted: await hasStarted(folder),
    }
  })
  ended.finally(() => input.close()).catch(() => {})

  const init = await withDeadline(
    findInit(launch, () => isOver),
    START_TIMEOUT_MS,
    () => {
      isOver = true
      namespaceProcess.kill()
      return 'runc did not start in time.'
    },
  )
  input.send()
  // A missing process id means that the command has ended or never began, which the exit reports.
  return { init: init ?? { pid: 0, startTime: 'ended' }, ended, begin: () => openGate(folder) }
}

function buildScript({ folder, spec }: LaunchPlan): string {
  const file = (name: string): string => quote(join(folder, name))
  const state = ['--root', join(folder, 'runc'), '--log', join(folder, 'runc.log'), '--log-format', 'json']
  // runc keeps the container after its end, so that the counters of its cgroup can be read. Its folders are removed
  // with the sandbox.
  const command = renderCommand('runc', ...state, 'run', '--keep', '--preserve-fds', '1', '--bundle', folder, spec.id)
  const gate = spec.ports.length === 0 ? '' : `mkfifo -m 600 ${file('gate')} && `
  const input = spec.input.length === 0 ? '/dev/null' : file('input')
  // runc holds the gate open, because writes to a pipe without readers are lost. The command does not inherit the gate.
  const gateInput = spec.ports.length === 0 ? '' : ` 7<> ${file('gate')}`
  // The command opens its output inside the sandbox; messages of runc are in its log.
  return `${gate}${command} < ${input} > /dev/null 2>&1 ${PRESERVED_FD}> ${file(STARTED_FILE)}${gateInput}`
}

/** Finds the first process of the sandbox's PID namespace, with its process id on this machine. */
async function findInit(launch: LaunchPlan, isOver: () => boolean): Promise<ProcessMark | undefined> {
  const [cgroup] = launch.cgroups
  if (cgroup === undefined) throw new SandboxUnavailable('runc needs cgroups.')
  while (!isOver()) {
    const first = (await isNetworkCreated(launch)) ? await findFirstProcess(await listProcesses(cgroup)) : undefined
    if (first) return first
    await wait(POLL_MS)
  }
  return undefined
}

/** Reports whether the network of the sandbox has been created. Always true without ports: then nothing waits for it. */
const isNetworkCreated = async ({ spec, folder }: LaunchPlan): Promise<boolean> =>
  spec.ports.length === 0 || exists(join(folder, 'created'))

async function findFirstProcess(pids: number[]): Promise<ProcessMark | undefined> {
  for (const pid of pids) if (await isFirstProcess(pid)) return findProcess(pid)
  return undefined
}

/** Reports whether a process is the first of the sandbox's PID namespace, which is nested in that of the namespace process. */
async function isFirstProcess(pid: number): Promise<boolean> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  const numbers = /^NSpid:\s+(.*)$/m.exec(status)?.[1]?.split(/\s+/) ?? []
  return numbers.length > 2 && numbers.at(-1) === '1'
}

async function readLogErrors(folder: string): Promise<string> {
  const text = await readFile(join(folder, 'runc.log'), 'utf8').catch(() => '')
  const entries: { level: string; msg: string }[] = text
    .split('\n')
    .filter(Boolean)
    .map((entry) => JSON.parse(entry))
  return entries
    .filter(({ level }) => level === 'error' || level === 'fatal')
    .map(({ msg }) => msg)
    .join('\n')
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

const MASKED = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/sys/firmware',
  '/sys/devices/virtual/powercap',
]
const READ_ONLY = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger']

const buildMount = (type: string, destination: string, ...options: string[]): object => ({
  destination,
  type,
  source: type,
  options,
})

const buildBind = (source: string, destination: string, ...options: string[]): object => ({
  destination,
  type: 'bind',
  source,
  options: ['bind', 'nosuid', 'nodev', ...options],
})

const toMount = (entry: LaunchMount): object =>
  entry.kind === 'folder'
    ? buildBind(entry.source, entry.target, ...(entry.readOnly ? ['ro'] : []))
    : buildMount(
        'tmpfs',
        entry.target,
        'nosuid',
        'nodev',
        'mode=1777',
        ...(entry.sizeMb === null ? [] : [`size=${entry.sizeMb}m`]),
      )

const MOUNTS = [
  buildMount('proc', '/proc', 'nosuid', 'noexec', 'nodev'),
  buildMount('tmpfs', '/dev', 'nosuid', 'strictatime', 'mode=755', 'size=65536k'),
  buildMount('devpts', '/dev/pts', 'nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620'),
  buildMount('mqueue', '/dev/mqueue', 'nosuid', 'noexec', 'nodev'),
  buildMount('sysfs', '/sys', 'nosuid', 'noexec', 'nodev', 'ro'),
]

const NAMESPACES = ['pid', 'ipc', 'uts', 'mount', 'cgroup']

/** The first descriptor that runc passes on. */
const PRESERVED_FD = 3

const OUTPUT = join(LAUNCHER, 'output')

/** Builds the OCI settings of a sandbox, with the same isolation as under bubblewrap. */
function buildRuncSettings(launch: LaunchPlan): object {
  const { host, spec, folder, root, account, workdir, env, binds } = launch
  // Only the first process keeps the last capability: setpriv drops it for the command.
  const capabilities = [...CAPABILITIES, FIRST_PROCESS_CAPABILITY].map((name) => `CAP_${name}`)
  return {
    ociVersion: '1.0.2',
    hostname: launch.hostname,
    root: { path: root, readonly: false },
    process: {
      terminal: false,
      user: { uid: 0, gid: 0 },
      args: [
        ...buildInitArgs(host.launcher, PRESERVED_FD, OUTPUT),
        ...buildLauncherArgs(host.launcher, account, CAPABILITIES),
        ...launch.command,
      ],
      env: Object.entries(env).map(([name, value]) => `${name}=${value}`),
      cwd: workdir,
      noNewPrivileges: true,
      capabilities: { bounding: capabilities, effective: capabilities, permitted: capabilities },
    },
    mounts: [
      ...MOUNTS,
      buildMount('tmpfs', '/dev/shm', 'nosuid', 'noexec', 'nodev', 'mode=1777', `size=${spec.limits.shmMb}m`),
      ...binds.map((path) => buildBind(path, path, 'ro')),
      ...listHidden(binds).map((path) =>
        buildMount('tmpfs', path, 'nosuid', 'noexec', 'nodev', 'ro', 'mode=0755', 'size=4k'),
      ),
      ...launch.launcherFiles.map(({ source, target }) => buildBind(source, target, 'ro')),
      buildBind(join(folder, 'output'), OUTPUT),
      ...launch.mounts.map(toMount),
    ],
    hooks: buildHooks(launch),
    linux: {
      cgroupsPath: `/assay-${spec.id}`,
      // A member of a sandbox network starts in the network of its namespace process.
      namespaces: [...NAMESPACES, ...(spec.network === null ? ['network'] : [])].map((type) => ({ type })),
      resources: { devices: [{ allow: false, access: 'rwm' }] },
      seccomp: buildOciFilter(host.machine),
      maskedPaths: MASKED,
      readonlyPaths: READ_ONLY,
    },
  }
}

/** Maximum time in seconds for which a command is held. Opening its ports takes much less. */
const HOLD_SECONDS = 60

/** Returns hooks that hold the command, after its network was created, until its ports are open. */
function buildHooks({ spec, folder }: LaunchPlan): object {
  if (spec.ports.length === 0) return {}
  const script = `: > ${quote(join(folder, 'created'))}; ${renderCommand('head', '-c', '1', join(folder, 'gate'))} > /dev/null`
  return {
    createRuntime: [
      { path: '/bin/sh', args: ['sh', '-c', script], env: ['PATH=/usr/bin:/bin'], timeout: HOLD_SECONDS },
    ],
  }
}

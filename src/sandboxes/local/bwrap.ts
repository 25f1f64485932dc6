import { access, open, writeFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { CAPABILITIES, FIRST_PROCESS_CAPABILITY } from '../kernel/accounts.ts'
import { parseExitCode } from '../kernel/exit.ts'
import { withDeadline } from '../kernel/namespace-process.ts'
import { findProcess } from '../kernel/ownership.ts'
import { quote, renderCommand } from '../kernel/shell.ts'
import { MEGABYTE, SandboxUnavailable } from '../sandbox.ts'
import {
  countControlProcesses,
  hasStarted,
  type LaunchedSandbox,
  type LaunchMount,
  type LaunchPlan,
  START_TIMEOUT_MS,
  STARTED_FILE,
} from './launch.ts'
import { buildInitArgs, buildLauncherArgs, listHidden, STARTED_FD } from './launcher.ts'
import { toFilterPath } from './machine.ts'
import { openInput } from './process-io.ts'

/** Processes of bubblewrap: its monitor and the first process. */
export const BWRAP_PROCESSES = 2

const NAMESPACES = ['--unshare-ipc', '--unshare-pid', '--unshare-uts', '--unshare-cgroup']
/** Makes our process the first one. An agent could trace bubblewrap's own first process, which lacks CAP_SETPCAP. */
const OWN_INIT = ['--as-pid-1']
const READ_ONLY = ['/proc/sys', '/proc/sysrq-trigger', '/proc/fs', '/proc/mtrr']
const HIDDEN = ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/proc/sched_debug', '/proc/latency_stats']

export const FILTER_FD = 8
const FD = { status: 3, started: STARTED_FD, gate: 7, filter: FILTER_FD, args: 9 }

/** Runs the command under bubblewrap. The namespace process is busy until the command ends. */
export async function launchBwrap(launch: LaunchPlan): Promise<LaunchedSandbox> {
  const { namespaceProcess, spec, folder } = launch
  // Variables may contain secrets. They are passed in a file, because every user of this machine can read command lines.
  await writeFile(join(folder, 'args'), (await buildOptions(launch)).join('\0'), { mode: 0o600 })
  const input = await openInput(join(folder, 'input'), spec.input)

  const child = Promise.withResolvers<number>()
  const readPid = (text: string): void => {
    const pid = /"child-pid": (\d+)/.exec(text)?.[1]
    if (pid !== undefined) child.resolve(Number(pid))
  }
  const answer = namespaceProcess.run(buildScript(launch), readPid)
  const ended = answer.then(async ({ code, text }) => {
    readPid(text) // a short command may have ended already
    child.reject(new SandboxUnavailable(`bubblewrap did not start (${code}). ${text}`))
    return {
      code: parseExitCode(/"exit-code": (-?\d+) \}/.exec(text)?.[1]),
      errorOutput: text.replace(/^\{.*\}$/gm, ''),
      hasStarted: await hasStarted(folder),
    }
  })
  ended.catch(child.reject)
  ended.finally(() => input.close()).catch(() => {})

  const pid = await withDeadline(child.promise, START_TIMEOUT_MS, () => {
    namespaceProcess.kill()
    return 'bubblewrap did not start in time.'
  }).finally(() => input.send())
  // The command may have ended by now.
  const init = (await findProcess(pid)) ?? { pid, startTime: 'ended' }
  return { init, ended, begin: () => openGate(folder) }
}

/** Lets the command start. Until its ports are open, the command waits for a byte from this pipe. */
export async function openGate(folder: string): Promise<void> {
  await using gate = await open(join(folder, 'gate'), 'r+')
  await gate.writeFile('x')
}

/**
 * Script that mounts bubblewrap read-only, once per namespace process. Root in the sandbox can open the executable of the
 * first process through `/proc/1/exe`. A running program cannot be written, but an agent could end it and then replace the
 * program of this machine.
 */
export const SEAL_PROGRAM = `{ [ -n "$sealed" ] || { mount -o bind,ro "$(command -v bwrap)" "$(command -v bwrap)" && sealed=1; }; } && `

function buildScript(launch: LaunchPlan): string {
  const { host, folder, cgroups, spec, account } = launch
  const file = (name: string): string => quote(join(folder, name))
  const hasGate = spec.ports.length > 0
  const needsProcessLimit = host.rootless && cgroups.length === 0
  const command = renderCommand(
    'bwrap',
    '--args',
    String(FD.args),
    '--',
    ...buildInitArgs(host.launcher, FD.started, null),
    ...buildLauncherArgs(host.launcher, account, CAPABILITIES),
    ...launch.command,
  )
  const files = [
    ...[`${FD.status}>&1`, `> ${file('output')}`, '2>&1', `< ${spec.input.length === 0 ? '/dev/null' : file('input')}`],
    `${FD.started}> ${file(STARTED_FILE)}`,
    ...[`${FD.args}< ${file('args')}`, `${FD.filter}< ${quote(toFilterPath(host.store))}`],
    ...(hasGate ? [`${FD.gate}<> ${file('gate')}`] : []),
  ]
  return [
    ...(host.rootless ? [] : [SEAL_PROGRAM]),
    ...(hasGate ? [`mkfifo -m 600 ${file('gate')} && `] : []),
    '( ',
    ...cgroups.map((group) => `echo 0 > ${quote(join(group, 'cgroup.procs'))} && `),
    `exec ${needsProcessLimit ? renderProcessLimit(spec.limits.pids + countControlProcesses(spec)) : ''}${command} ${files.join(' ')} )`,
  ].join('')
}

/**
 * Limits processes without cgroups. The kernel counts processes per user in each user namespace, and each sandbox of an
 * ordinary user has one. Refusals are not reported.
 */
const renderProcessLimit = (pids: number): string =>
  `${renderCommand('prlimit', `--nproc=${pids + BWRAP_PROCESSES + 1}`)} `

async function buildOptions(launch: LaunchPlan): Promise<string[]> {
  const { root, spec, env, workdir } = launch
  kernelPaths ??= Promise.all([READ_ONLY, HIDDEN].map(listExisting))
  const [readOnly, hidden] = await kernelPaths
  return [
    ...['--bind', root, '/', '--proc', '/proc', '--dev', '/dev'],
    ...(readOnly ?? []).flatMap((path) => ['--ro-bind', path, path]),
    ...(hidden ?? []).flatMap((path) => ['--ro-bind', '/dev/null', path]),
    ...buildShmArgs(spec.limits.shmMb),
    ...launch.launcherFiles.flatMap(({ source, target }) => ['--ro-bind', source, target]),
    ...launch.binds.flatMap((path) => ['--ro-bind', path, path]),
    ...listHidden(launch.binds).flatMap((path) => ['--perms', '0755', '--tmpfs', path, '--remount-ro', path]),
    ...launch.mounts.flatMap(buildMountArgs),
    ...NAMESPACES,
    ...OWN_INIT,
    // A member of a sandbox network starts in the network of its namespace process.
    ...(spec.network === null ? ['--unshare-net'] : []),
    ...['--hostname', launch.hostname, '--die-with-parent', '--new-session', '--clearenv'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    // Only the first process keeps CAP_SETPCAP: setpriv drops it for the command.
    ...[
      '--cap-drop',
      'ALL',
      ...[...CAPABILITIES, FIRST_PROCESS_CAPABILITY].flatMap((name) => ['--cap-add', `CAP_${name}`]),
    ],
    ...['--dir', workdir, '--chdir', workdir],
    ...['--seccomp', String(FD.filter), '--json-status-fd', String(FD.status)],
    ...(spec.ports.length === 0 ? [] : ['--block-fd', String(FD.gate)]),
  ]
}

/** Mounts /dev/shm as a filesystem with a size limit. */
export const buildShmArgs = (sizeMb: number): string[] => buildMountArgs({ kind: 'tmpfs', target: '/dev/shm', sizeMb })

function buildMountArgs(mount: LaunchMount): string[] {
  // bubblewrap would create missing parent folders that only root can read.
  if (mount.kind === 'folder')
    return ['--dir', posix.dirname(mount.target), mount.readOnly ? '--ro-bind' : '--bind', mount.source, mount.target]
  const size = mount.sizeMb === null ? [] : ['--size', String(mount.sizeMb * MEGABYTE)]
  return ['--perms', '1777', ...size, '--tmpfs', mount.target]
}

/** Paths that this kernel has, looked up once. */
let kernelPaths: Promise<string[][]> | undefined

async function listExisting(paths: string[]): Promise<string[]> {
  const found = await Promise.all(
    paths.map((path) =>
      access(path).then(
        () => [path],
        () => [],
      ),
    ),
  )
  return found.flat()
}

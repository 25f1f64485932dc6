import { access, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { SandboxUnavailable } from '../sandbox.ts'
import { openInput } from './input.ts'
import { CAPABILITIES, HOSTNAME, type Launch, type Launched } from './launch.ts'
import { launcherFiles, launcherWords } from './launcher.ts'
import { filterPath } from './machine.ts'
import { findProcess } from './process-life.ts'
import { line, quote } from './shell.ts'

/** Its monitor and its first process. */
export const BWRAP_PROCESSES = 2

const NAMESPACES = ['--unshare-ipc', '--unshare-pid', '--unshare-net', '--unshare-uts', '--unshare-cgroup']
const READ_ONLY = ['/proc/sys', '/proc/sysrq-trigger', '/proc/fs', '/proc/mtrr']
const HIDDEN = ['/proc/kcore', '/proc/keys', '/proc/timer_list', '/proc/sched_debug', '/proc/latency_stats']

export const FILTER_FD = 8
const FD = { status: 3, gate: 7, filter: FILTER_FD, args: 9 }

/** Runs the command under bubblewrap. The holder is busy with it until it ends. */
export async function launchBwrap(launch: Launch): Promise<Launched> {
  const { holder, spec, folder } = launch
  // Variables may hold secrets, and everyone on this machine can read a command line: they go through a file.
  await writeFile(join(folder, 'args'), (await options(launch)).join('\0'), { mode: 0o600 })
  const input = await openInput(join(folder, 'input'), spec.input)

  const child = Promise.withResolvers<number>()
  const answer = holder.run(script(launch), (text) => {
    const pid = /"child-pid": (\d+)/.exec(text)?.[1]
    if (pid !== undefined) child.resolve(Number(pid))
  })
  const ended = answer.then(({ code, text }) => {
    child.reject(new SandboxUnavailable(`bubblewrap did not start (${code}). ${text}`))
    const reported = /"exit-code": (\d+)/.exec(text)?.[1]
    return { code: reported === undefined ? undefined : Number(reported), complaint: text.replace(/^\{.*\}$/gm, '') }
  })
  ended.catch(child.reject)
  ended.finally(() => input.close()).catch(() => {})

  const pid = await child.promise.finally(() => input.send())
  // A command may well have ended by now.
  const init = (await findProcess(pid)) ?? { pid, startTime: 'ended' }
  return { init, ended, begin: () => openGate(folder) }
}

async function openGate(folder: string): Promise<void> {
  await using gate = await open(join(folder, 'gate'), 'r+')
  await gate.writeFile('x')
}

function script(launch: Launch): string {
  const { host, folder, cgroups, spec, account } = launch
  const file = (name: string): string => quote(join(folder, name))
  const gated = spec.gateway !== null
  const command = line(
    'bwrap',
    '--args',
    String(FD.args),
    '--',
    ...launcherWords(host.launcher, account, CAPABILITIES),
    ...spec.command,
  )
  const files = [
    ...[`${FD.status}>&1`, `> ${file('output')}`, '2>&1', `< ${spec.input === '' ? '/dev/null' : file('input')}`],
    ...[`${FD.args}< ${file('args')}`, `${FD.filter}< ${quote(filterPath(host.store))}`],
    ...(gated ? [`${FD.gate}<> ${file('gate')}`] : []),
  ]
  return [
    ...(gated ? [`mkfifo -m 600 ${file('gate')} && `] : []),
    '( ',
    ...cgroups.map((group) => `echo 0 > ${quote(join(group, 'cgroup.procs'))} && `),
    `exec ${host.rootless ? processLimit(spec.limits.pids) : ''}${command} ${files.join(' ')} )`,
  ].join('')
}

/**
 * Where there are no cgroups. The kernel counts the processes of a user in each user namespace, and each sandbox of an
 * ordinary user has one. It does not tell how often it refused one.
 */
const processLimit = (pids: number): string => `${line('prlimit', `--nproc=${pids + BWRAP_PROCESSES + 1}`)} `

async function options(launch: Launch): Promise<string[]> {
  const { host, root, spec, env, workdir } = launch
  const [readOnly, hidden] = await Promise.all([READ_ONLY, HIDDEN].map(existing))
  return [
    ...['--bind', root, '/', '--proc', '/proc', '--dev', '/dev'],
    ...(readOnly ?? []).flatMap((path) => ['--ro-bind', path, path]),
    ...(hidden ?? []).flatMap((path) => ['--ro-bind', '/dev/null', path]),
    ...launcherFiles(host.launcher).flatMap(({ source, target }) => ['--ro-bind', source, target]),
    ...launch.binds.flatMap((path) => ['--ro-bind', path, path]),
    ...spec.mounts.flatMap(({ source, target, readOnly: locked }) => [locked ? '--ro-bind' : '--bind', source, target]),
    ...NAMESPACES,
    ...['--hostname', HOSTNAME, '--die-with-parent', '--new-session', '--clearenv'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    // SETPCAP is given up by setpriv, which needs it to take the others from the bounding set.
    ...['--cap-drop', 'ALL', ...[...CAPABILITIES, 'SETPCAP'].flatMap((name) => ['--cap-add', `CAP_${name}`])],
    ...['--dir', workdir, '--chdir', workdir],
    ...['--seccomp', String(FD.filter), '--json-status-fd', String(FD.status)],
    ...(spec.gateway === null ? [] : ['--block-fd', String(FD.gate)]),
  ]
}

async function existing(paths: string[]): Promise<string[]> {
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

import { join } from 'node:path'
import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'
import type { DockerfileInstruction } from '../../harbor/dockerfile.ts'
import { CAPABILITIES } from '../kernel/agent-rights.ts'
import { findInside } from '../kernel/inside.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { asOrdinaryUser, findAccount } from './account.ts'
import type { Building } from './building.ts'
import { FILTER_FD, SEAL, shmWords } from './bwrap.ts'
import { refuseLinks } from './files.ts'
import { launcherFiles, launcherWords } from './launcher.ts'
import { filterPath } from './machine.ts'
import { line, quote } from './shell.ts'

/** More than an agent may: packages bring files with capabilities of their own. */
const BUILD_CAPABILITIES = [...CAPABILITIES, 'SETFCAP', 'SYS_CHROOT']

const LAST_LETTERS = 2000

/** Runs a command of the build in namespaces of its own, with the network of the holder. */
export async function runCommand(
  building: Building,
  { text, exec, line: number }: DockerfileInstruction,
): Promise<void> {
  const { host, holder, root, base, workdir, onLog } = building
  const seen = join(holder.root, root)
  const places = ['/proc', '/dev', ...(base.binds ?? [])]
  for (const path of places) await refuseLinks(seen, path)
  const found = await findAccount(seen, building.user || 'root')
  const account = host.rootless ? asOrdinaryUser(found, building.user) : found
  const env = { HOME: account.home, ...building.args, ...building.env, ...building.proxy }
  const words = [
    ...['bwrap', '--bind', root, '/', '--proc', '/proc', '--dev', '/dev', '--ro-bind', '/proc/sys', '/proc/sys'],
    ...shmWords(DEFAULT_LIMITS.shmMb),
    ...(base.binds ?? []).flatMap((path) => ['--ro-bind', path, path]),
    ...(await resolverOf(seen)),
    ...launcherFiles(host.launcher).flatMap(({ source, target }) => ['--ro-bind', source, target]),
    ...['--unshare-pid', '--unshare-ipc', '--unshare-uts', '--die-with-parent', '--new-session', '--clearenv'],
    ...Object.entries(env).flatMap(([name, value]) => ['--setenv', name, value]),
    ...['--cap-drop', 'ALL', ...[...BUILD_CAPABILITIES, 'SETPCAP'].flatMap((name) => ['--cap-add', `CAP_${name}`])],
    ...['--seccomp', String(FILTER_FD), '--chdir', workdir, '--'],
    ...launcherWords(host.launcher, account, BUILD_CAPABILITIES),
    ...(exec ?? ['/bin/sh', '-c', text]),
  ]
  const { code, text: output } = await holder.run(
    `${host.rootless ? '' : SEAL}( ${building.entering}exec ${line(...words)} ${FILTER_FD}< ${quote(filterPath(host.store))} )`,
  )
  for (const said of output.split('\n').filter(Boolean)) onLog(said)
  if (code === 0) return
  throw new SandboxUnavailable(
    `Line ${number} of the Dockerfile: RUN ended with ${code}:\n${output.slice(-LAST_LETTERS)}`,
  )
}

const RESOLVER = '/etc/resolv.conf'

/** Only over a file that is one: bubblewrap goes through a link, and makes what it leads to on this machine. */
const resolverOf = async (root: string): Promise<string[]> =>
  (await findInside(root, RESOLVER))?.stats.isFile() ? ['--ro-bind-try', RESOLVER, RESOLVER] : []

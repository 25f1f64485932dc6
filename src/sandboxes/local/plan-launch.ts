import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { shareSuccessByKey } from '../../platform/concurrency.ts'
import { HOSTNAME, type UserAccount } from '../kernel/accounts.ts'
import { listCgroupFolders } from '../kernel/cgroup.ts'
import { findInside, toPathParts } from '../kernel/sandbox-path.ts'
import { quote, renderCommand } from '../kernel/shell.ts'
import { type Mount, SandboxUnsupported } from '../sandbox.ts'
import { controlFolder } from './control.ts'
import { asOrdinaryUser, refuseLinks, resolveSandboxAccount, rootOf } from './files.ts'
import { buildEnvironmentVariables, type LaunchMount, type LaunchPlan, type LocalRunningSandbox } from './launch.ts'
import { buildControlShellArgs, listControlFiles, listLauncherFiles } from './launcher.ts'
import { type LocalNetwork, localNetworkOf, toHostsFile, toVolumeFolder } from './network.ts'

type LaunchContext = Pick<LocalRunningSandbox, 'host' | 'spec' | 'namespaceProcess' | 'resources'> & { binds: string[] }

/** Plans the launch of a sandbox. Checks the sandbox's files before anything runs on them. */
export async function planLaunch(context: LaunchContext): Promise<LaunchPlan> {
  const { host, spec, namespaceProcess, resources, binds } = context
  const root = rootOf(host, namespaceProcess, resources.files)
  const user = spec.user ?? spec.image.user
  const imageAccount = await resolveSandboxAccount(root, user)
  const account = host.rootless ? asOrdinaryUser(imageAccount, user) : imageAccount
  const workdir = spec.workdir ?? spec.image.workdir
  const mounts = await resolveMounts(context)
  for (const path of ['/proc', '/dev', workdir, ...mounts.map(({ target }) => target)]) await refuseLinks(root, path)
  return {
    host,
    namespaceProcess,
    spec,
    workdir,
    binds,
    root: join(host.store.folder, resources.files.root),
    folder: resources.files.folder,
    mounts,
    hostname: spec.network?.names[0] ?? HOSTNAME,
    cgroups: host.cgroups === undefined ? [] : listCgroupFolders(host.cgroups, spec.id),
    ...(await prepareCommand(context, { account, workdir })),
  }
}

type LaunchedCommand = Pick<LaunchPlan, 'account' | 'command' | 'env' | 'launcherFiles'>

/** Returns the command itself, or the control shell, to which the command is then sent. */
async function prepareCommand(
  { host, spec, resources }: LaunchContext,
  { account, workdir }: Pick<LaunchPlan, 'account' | 'workdir'>,
): Promise<LaunchedCommand> {
  const env = buildEnvironmentVariables(spec.image, account, spec.env)
  const files = listLauncherFiles(host.launcher)
  const { command } = spec
  if (resources.control === undefined) return { account, command: command ?? [], env, launcherFiles: files }
  if (command !== null) {
    await resources.control.startCommand({
      number: 0,
      launcher: host.launcher,
      account,
      workdir,
      env,
      command,
      hasInput: false,
    })
  }
  return {
    account: createRootAccount(host.rootless),
    command: buildControlShellArgs(host.launcher),
    env: {},
    launcherFiles: [...files, ...listControlFiles(host.launcher, controlFolder(resources.files.folder))],
  }
}

const createRootAccount = (rootless: boolean): UserAccount => ({
  uid: 0,
  gid: 0,
  groups: rootless ? undefined : [0],
  home: '/',
})

async function resolveMounts(context: LaunchContext): Promise<LaunchMount[]> {
  const { network, mounts } = context.spec
  const localNetwork = network && localNetworkOf(network.sandboxNetwork)
  const resolved: LaunchMount[] = localNetwork
    ? [{ kind: 'folder', source: toHostsFile(localNetwork), target: '/etc/hosts', readOnly: true }]
    : []
  for (const mount of mounts) {
    if (mount.kind !== 'volume') resolved.push(mount)
    else if (localNetwork)
      resolved.push({ ...mount, kind: 'folder', source: await prepareVolume(localNetwork, context, mount) })
    else throw new SandboxUnsupported(`The volume ${mount.name} requires a sandbox network.`)
  }
  return resolved
}

type NetworkVolume = Extract<Mount, { kind: 'volume' }>
type Member = Pick<LocalRunningSandbox, 'host' | 'namespaceProcess' | 'resources'>

const VOLUME_NAME = /^[A-Za-z0-9][\w.-]{0,99}$/

/** Returns the folder of a volume. The first sandbox that mounts it fills it with the files of its image, as Docker does. */
async function prepareVolume(
  localNetwork: LocalNetwork,
  member: Member,
  { name, target }: NetworkVolume,
): Promise<string> {
  if (!VOLUME_NAME.test(name)) throw new SandboxUnsupported(`Invalid volume name: ${JSON.stringify(name)}`)
  return shareSuccessByKey(localNetwork.volumes, name, () =>
    fillVolume(toVolumeFolder(localNetwork, name), member, target),
  )
}

async function fillVolume(
  folder: string,
  { host, namespaceProcess, resources }: Member,
  target: string,
): Promise<string> {
  const root = rootOf(host, namespaceProcess, resources.files)
  await refuseLinks(root, target)
  if ((await findInside(root, target))?.stats.isDirectory()) {
    const source = join(host.store.folder, resources.files.root, ...toPathParts(target))
    await namespaceProcess.runOrThrow(
      'Filling a volume',
      `rm -rf ${quote(folder)} && ${renderCommand('cp', '-a', '-T', '--', source, folder)}`,
    )
  } else {
    await mkdir(folder, { recursive: true, mode: 0o755 })
  }
  return folder
}

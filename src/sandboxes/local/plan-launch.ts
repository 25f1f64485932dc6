import { join } from 'node:path'
import type { Account } from '../kernel/accounts.ts'
import { HOSTNAME } from '../kernel/agent-rights.ts'
import { cgroupFolders } from '../kernel/cgroup.ts'
import { SandboxUnsupported } from '../sandbox.ts'
import { asOrdinaryUser, findAccount } from './account.ts'
import { controlFolder } from './control.ts'
import { refuseLinks, rootOf } from './files.ts'
import { hostsFile, jointOf } from './group.ts'
import { environmentOf, type Launch, type LaunchMount } from './launch.ts'
import { controlFiles, controlWords, launcherFiles } from './launcher.ts'
import type { Running } from './running.ts'
import { volumeFolder } from './volume.ts'

type Planning = Pick<Running, 'host' | 'spec' | 'holder' | 'made'> & { binds: string[] }

/** Looks at the sandbox's files before anything runs on them. */
export async function planLaunch(planning: Planning): Promise<Launch> {
  const { host, spec, holder, made, binds } = planning
  const root = rootOf(host, holder, made.files)
  const user = spec.user ?? spec.image.user
  const found = await findAccount(root, user)
  const account = host.rootless ? asOrdinaryUser(found, user) : found
  const workdir = spec.workdir ?? spec.image.workdir
  const mounts = await launchMounts(planning)
  for (const path of ['/proc', '/dev', workdir, ...mounts.map(({ target }) => target)]) await refuseLinks(root, path)
  return {
    ...{ host, holder, spec, workdir, binds },
    root: join(host.store.folder, made.files.root),
    folder: made.files.folder,
    mounts,
    hostname: spec.group?.names[0] ?? HOSTNAME,
    cgroups: host.cgroups === undefined ? [] : cgroupFolders(host.cgroups, spec.id),
    ...(await firstCommand(planning, { account, workdir })),
  }
}

type First = Pick<Launch, 'account' | 'command' | 'env' | 'launcherFiles'>

/** The command itself, or the control shell that is then told to start it. */
async function firstCommand(
  { host, spec, made }: Planning,
  { account, workdir }: Pick<Launch, 'account' | 'workdir'>,
): Promise<First> {
  const env = environmentOf(spec.image, account, spec.env)
  const files = launcherFiles(host.launcher)
  const { command } = spec
  if (made.control === undefined) return { account, command: command ?? [], env, launcherFiles: files }
  if (command !== null) {
    await made.control.tell({ number: 0, launcher: host.launcher, account, workdir, env, command, hasInput: false })
  }
  return {
    account: rootAccount(host.rootless),
    command: controlWords(host.launcher),
    env: {},
    launcherFiles: [...files, ...controlFiles(host.launcher, controlFolder(made.files.folder))],
  }
}

const rootAccount = (rootless: boolean): Account => ({ uid: 0, gid: 0, groups: rootless ? undefined : [0], home: '/' })

async function launchMounts(planning: Planning): Promise<LaunchMount[]> {
  const { group, mounts } = planning.spec
  const joint = group && jointOf(group.group)
  const found: LaunchMount[] = joint
    ? [{ kind: 'folder', source: hostsFile(joint), target: '/etc/hosts', readOnly: true }]
    : []
  for (const mount of mounts) {
    if (mount.kind !== 'volume') found.push(mount)
    else if (joint) found.push({ ...mount, kind: 'folder', source: await volumeFolder(joint, planning, mount) })
    else throw new SandboxUnsupported(`The volume ${mount.name} needs a group.`)
  }
  return found
}

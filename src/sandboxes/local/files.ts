import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { ACCOUNT_FILE_MAX_BYTES, type AccountFiles, resolveAccount, type UserAccount } from '../kernel/accounts.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import { findInside, readInside, toPathParts } from '../kernel/sandbox-path.ts'
import { renderCommand } from '../kernel/shell.ts'
import { MEGABYTE, SandboxUnavailable, SandboxUnsupported } from '../sandbox.ts'
import { formatOverlayOptions, type Host } from './machine.ts'

/** The files of one sandbox. Paths are relative to the store, except `folder`. */
export type SandboxFiles = {
  folder: string
  /** Mount point of all layers together. */
  root: string
  /** Layers with the changes of the sandbox, the latest first: the upper layer, then the layers of the base filesystem. */
  changes: string[]
  /** Layers of its image, the topmost first. */
  layers: string[]
  /** Disk image of the sandbox, where the kernel enforces its size. */
  disk: string | undefined
}

/** Factor for the tables of the filesystem itself. */
const DISK_OVERHEAD = 1.04
const DISK_MIN_MB = 8
/**
 * Larger disks are polled instead of enforced by the kernel: what is written between two polls is a small part of them, and
 * creating a disk image takes as long as starting a sandbox.
 */
const DISK_HARD_MAX_MB = 4096

export function planFiles(host: Host, id: string, layers: string[], diskMb: number): SandboxFiles {
  const sandboxFolder = join('run', id)
  const disk = host.hasLoopDevices && diskMb <= DISK_HARD_MAX_MB ? join(sandboxFolder, 'disk') : undefined
  return {
    folder: join(host.store.folder, sandboxFolder),
    root: join(sandboxFolder, 'root'),
    changes: [join(disk ?? sandboxFolder, 'upper')],
    layers,
    disk,
  }
}

/** Mounts the layers of the image, of the base filesystem and of the sandbox itself. */
export async function mountFiles(
  host: Host,
  namespaceProcess: NamespaceProcess,
  files: SandboxFiles,
  diskMb: number,
): Promise<void> {
  const [upper = '', ...baseLayers] = files.changes
  const work = join(upper, '..', 'work')
  const lowers = [...baseLayers, ...files.layers].join(':')
  const options = `lowerdir=${lowers},upperdir=${upper},workdir=${work},${formatOverlayOptions(host.rootless)}`
  await mkdir(join(host.store.folder, files.root), { recursive: true })
  for (const path of files.disk === undefined ? [upper, work] : []) {
    await mkdir(join(host.store.folder, path), { mode: 0o755 })
  }
  const steps = [
    renderCommand('cd', host.store.folder),
    ...(files.disk === undefined
      ? []
      : [...buildDiskCommands(files.disk, diskMb), renderCommand('mkdir', '-m', '755', upper, work)]),
    renderCommand('mount', '-t', 'overlay', 'overlay', '-o', `nosuid,nodev,${options}`, files.root),
  ]
  await namespaceProcess.runOrThrow('Mounting the files of a sandbox', steps.join(' && '))
}

function buildDiskCommands(disk: string, diskMb: number): string[] {
  const bytes = Math.ceil(Math.max(diskMb, DISK_MIN_MB) * DISK_OVERHEAD) * MEGABYTE
  return [
    renderCommand('truncate', '-s', String(bytes), `${disk}.img`),
    // The disk needs no journal and no preinitialised tables: it is discarded after a crash, and most of it is never used.
    renderCommand(
      'mkfs.ext4',
      '-q',
      '-m',
      '0',
      '-O',
      '^has_journal',
      '-E',
      'lazy_itable_init=1,nodiscard',
      `${disk}.img`,
    ),
    renderCommand('mkdir', disk),
    renderCommand('mount', '-o', 'loop,noinit_itable,nosuid,nodev', `${disk}.img`, disk),
  ]
}

/** Returns the path of the sandbox's root for this process. */
export const rootOf = (host: Host, namespaceProcess: NamespaceProcess, files: SandboxFiles): string =>
  join(namespaceProcess.root, host.store.folder, files.root)

/** Throws if a path contains a link. A link at a mount point would redirect the mount to a path of this machine. */
export async function refuseLinks(root: string, path: string): Promise<void> {
  const parts = toPathParts(path)
  for (let length = 1; length <= parts.length; length += 1) {
    const found = await findInside(root, parts.slice(0, length).join('/'))
    if (found === undefined) return
    if (found.stats.isSymbolicLink()) {
      throw new SandboxUnavailable(
        `${path} cannot be used in the sandbox: /${parts.slice(0, length).join('/')} is a link.`,
      )
    }
  }
}

/** Reads the account files of a root filesystem. */
export async function readAccountFiles(root: string): Promise<AccountFiles> {
  const read = (path: string): Promise<string | undefined> => readInside(root, path, ACCOUNT_FILE_MAX_BYTES)
  return { passwd: await read('/etc/passwd'), group: await read('/etc/group') }
}

/** Resolves a user in the files of a sandbox. */
export const resolveSandboxAccount = async (root: string, user: string | number): Promise<UserAccount> =>
  resolveAccount(await readAccountFiles(root), user)

/** Maps an account to root, the only user in the user namespace of an ordinary user. Throws for other users. */
export function asOrdinaryUser(account: UserAccount, user: string | number): UserAccount {
  if (account.uid === 0 && account.gid === 0) return { ...account, groups: undefined }
  throw new SandboxUnsupported(`The user ${user} requires the provider local as root, or docker.`)
}

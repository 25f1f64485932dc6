import { access, constants, mkdir, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Log } from '../../platform/log.ts'
import { type CgroupLayout, findLayout } from '../kernel/cgroup.ts'
import { type NamespaceOptions, type NamespaceProcess, startNamespaceProcess } from '../kernel/namespace-process.ts'
import { findProgram, listLibraries, tryProgram } from '../kernel/run-program.ts'
import { quote, renderCommand, STANDARD_PATH } from '../kernel/shell.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { createDraftPath, type ImageStore } from './image-store.ts'
import { createPipePool, type PipePool } from './process-io.ts'
import { compileFilter, type MachineKind } from './seccomp.ts'

export type Runtime = 'bwrap' | 'runc'

/** Capabilities of this machine, detected once. */
export type Host = {
  store: ImageStore
  log: Log
  runtime: Runtime
  machine: MachineKind
  /** True if this process runs as an ordinary user, which is root only in its user namespaces. */
  rootless: boolean
  cgroups: CgroupLayout | undefined
  /** True if sandboxes can have disk images of limited size. */
  hasLoopDevices: boolean
  /** True if sandboxes can share a network. */
  hasNetworks: boolean
  launcher: LocalLauncher
  namespacePool: NamespacePool
  pipes: PipePool
}

/**
 * Programs of this machine that start a sandbox's command, with their loader and libraries, so that they work in
 * any image. Each is the path of a file.
 */
export type LocalLauncher = { loader: string; setpriv: string; sh: string; setsid: string; libraries: string[] }

/** Detects the capabilities of this machine. Throws SandboxUnavailable, with the fix, if the runtime does not work here. */
export async function inspectHost(store: ImageStore, runtime: Runtime, log: Log): Promise<Host> {
  const machine = process.arch
  if (machine !== 'x64' && machine !== 'arm64')
    throw createUnavailableError(`the architecture ${machine} is not supported`)
  const rootless = process.geteuid?.() !== 0
  if (rootless && runtime === 'runc') throw createUnavailableError('runc is used as root only', 'use bwrap')
  await requireTools(runtime)
  const namespaceProcess = await startNamespaceProcess({ rootless, copyMountsOf: undefined, cwd: store.folder })
  try {
    const hasLoopDevices = !rootless && (await canMountLoop(store, namespaceProcess.run))
    await requireOverlay(store, rootless, namespaceProcess.runOrThrow)
    if (runtime === 'bwrap')
      await namespaceProcess.runOrThrow('Trying bubblewrap', renderCommand('bwrap', ...BWRAP_TEST_ARGS))
    const cgroups = await findLayout()
    if (runtime === 'runc' && !cgroups)
      throw createUnavailableError('runc needs cgroups, which this process cannot create', 'use bwrap')
    const hasNetworks =
      (await namespaceProcess.run(renderCommand('unshare', '--net', 'sh', '-c', NETWORK_TEST))).code === 0
    await writeFile(toFilterPath(store), compileFilter(machine))
    return {
      store,
      log,
      runtime,
      machine,
      rootless,
      cgroups,
      hasLoopDevices,
      hasNetworks,
      launcher: await requireLauncher(),
      namespacePool: createNamespacePool({ rootless, ownsProcesses: runtime === 'runc' }),
      pipes: createPipePool(store),
    }
  } finally {
    await namespaceProcess.end()
  }
}

const BWRAP_TEST_ARGS = [
  '--ro-bind',
  '/',
  '/',
  '--proc',
  '/proc',
  '--unshare-pid',
  '--unshare-net',
  '--unshare-ipc',
  'true',
]

/** Script that tests for sandbox networks, which require iproute2 and a kernel with bridges. */
const NETWORK_TEST =
  'ip link add name br0 type bridge && ip link add name v0 type veth peer name v1 && ip link set dev v0 master br0'

export const toFilterPath = (store: ImageStore): string => join(store.folder, 'seccomp.bpf')

/** Returns mount options of overlay. An ordinary user needs `userxattr`; the others keep layers usable at other paths. */
export const formatOverlayOptions = (rootless: boolean): string =>
  rootless ? 'userxattr' : 'redirect_dir=off,metacopy=off,index=off'

const createUnavailableError = (reason: string, hint = 'use docker'): SandboxUnavailable =>
  new SandboxUnavailable(`The local sandbox does not work here: ${reason}. Instead, ${hint}.`)

/** Checks that the runtime is still installed on a machine where it worked before. */
export async function requireRuntime(runtime: Runtime): Promise<void> {
  for (const folder of STANDARD_PATH.split(':')) {
    const isThere = await access(join(folder, runtime), constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isThere) return
  }
  throw createUnavailableError(`${runtime} is no longer installed`, `install ${runtime} or use docker`)
}

async function requireTools(runtime: Runtime): Promise<void> {
  for (const program of [runtime, 'unshare', 'setpriv', 'mount']) {
    const { code } = await tryProgram(program, ['--version'])
    if (code === 127) throw createUnavailableError(`${program} is not installed`, `install ${program} or use docker`)
  }
}

async function requireOverlay(
  store: ImageStore,
  rootless: boolean,
  runOrThrow: NamespaceProcess['runOrThrow'],
): Promise<void> {
  const folder = join(store.folder, await createDraftPath())
  await mkdir(folder)
  try {
    for (const name of ['lower', 'upper', 'work', 'root']) await mkdir(join(folder, name))
    const options = `lowerdir=lower,upperdir=upper,workdir=work,${formatOverlayOptions(rootless)}`
    await runOrThrow(
      'Mounting an overlay',
      `cd ${quote(folder)} && ${renderCommand('mount', '-t', 'overlay', 'overlay', '-o', options, 'root')} && umount root`,
    )
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function canMountLoop(store: ImageStore, run: NamespaceProcess['run']): Promise<boolean> {
  const folder = join(store.folder, await createDraftPath())
  await mkdir(folder)
  try {
    const script = 'truncate -s 4M disk && mkfs.ext4 -q disk && mkdir on && mount -o loop disk on && umount on'
    return (await run(`cd ${quote(folder)} && ${script}`)).code === 0
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function requireProgram(name: string): Promise<string> {
  const path = await findProgram(name)
  if (path === undefined) throw createUnavailableError(`${name} is not installed`, `install ${name} or use docker`)
  return path
}

async function requireLauncher(): Promise<LocalLauncher> {
  const [setpriv, sh, setsid] = await Promise.all([
    requireProgram('setpriv'),
    requireProgram('sh'),
    requireProgram('setsid'),
  ])
  const files = await listLibraries([setpriv, sh, setsid])
  const loader = files.find((file) => basename(file).startsWith('ld-'))
  if (loader === undefined) throw createUnavailableError(`the libraries of ${setpriv} were not found`)
  return { loader, setpriv, sh, setsid, libraries: files.filter((file) => file !== loader) }
}

/** Pool of unused namespace processes. Starting one takes three processes, more than many sandboxes need. */
type NamespacePool = {
  take(): Promise<NamespaceProcess>
  /** Reports whether the process belongs to this pool. */
  owns(namespaceProcess: NamespaceProcess): boolean
  /** Puts a process back into the pool. Its sandbox and mounts have been removed before. */
  put(namespaceProcess: NamespaceProcess): Promise<void>
}

/** Maximum number of unused processes in the pool. */
const UNUSED_MAX = 8

function createNamespacePool(options: Pick<NamespaceOptions, 'rootless' | 'ownsProcesses'>): NamespacePool {
  const unused: NamespaceProcess[] = []
  const members = new WeakSet<NamespaceProcess>()
  return {
    async take() {
      for (let namespaceProcess = unused.pop(); namespaceProcess !== undefined; namespaceProcess = unused.pop()) {
        if (namespaceProcess.hasExited()) continue
        namespaceProcess.setReferenced(true)
        return namespaceProcess
      }
      const namespaceProcess = await startNamespaceProcess({ ...options, copyMountsOf: undefined, cwd: '/' })
      members.add(namespaceProcess)
      return namespaceProcess
    },
    owns: (namespaceProcess) => members.has(namespaceProcess),
    async put(namespaceProcess) {
      if (unused.length >= UNUSED_MAX || namespaceProcess.hasExited()) return namespaceProcess.end()
      // Unused namespace processes must not keep this process alive.
      namespaceProcess.setReferenced(false)
      unused.push(namespaceProcess)
    },
  }
}

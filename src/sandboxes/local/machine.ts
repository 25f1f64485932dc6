import { access, constants, mkdir, rm, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { Log } from '../../platform/log.ts'
import { type CgroupLayout, findLayout } from '../kernel/cgroup.ts'
import {
  type NamespaceOptions,
  type NamespaceProcess,
  startNamespaceProcess,
  TOOLS_PATH,
} from '../kernel/namespace-process.ts'
import { tryProgram } from '../kernel/run-program.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { type ImageStore, newDraft } from './image-store.ts'
import { type Pipes, pipesOf } from './record.ts'
import { type MachineKind, seccompFilter } from './seccomp.ts'
import { line } from './shell.ts'

export type Runtime = 'bwrap' | 'runc'

/** Capabilities of this machine, detected once. */
export type Host = {
  store: ImageStore
  log: Log
  runtime: Runtime
  machine: MachineKind
  /** This process runs as an ordinary user, which is root only in its user namespaces. */
  rootless: boolean
  cgroups: CgroupLayout | undefined
  /** Loop devices are available, so that sandboxes can have disk images of limited size. */
  loop: boolean
  /** Sandbox networks are available. */
  groups: boolean
  launcher: LocalLauncher
  holders: NamespacePool
  pipes: Pipes
}

/**
 * Programs of this machine that start a sandbox's command, with their loader and libraries, so that they work in
 * any image. Each is the path of a file.
 */
export type LocalLauncher = { loader: string; setpriv: string; sh: string; setsid: string; libraries: string[] }

export async function findHost(store: ImageStore, runtime: Runtime, log: Log): Promise<Host> {
  const machine = process.arch
  if (machine !== 'x64' && machine !== 'arm64') throw unavailable(`it does not know machines of kind ${machine}`)
  const rootless = process.geteuid?.() !== 0
  if (rootless && runtime === 'runc') throw unavailable('runc is used as root only', 'use bwrap')
  await findTools(runtime)
  const holder = await startNamespaceProcess({ rootless, beside: undefined, cwd: store.folder })
  try {
    const loop = !rootless && (await canLoop(store, holder.run))
    await tryOverlay(store, rootless, holder.runOrThrow)
    if (runtime === 'bwrap') await holder.runOrThrow('Trying bubblewrap', line('bwrap', ...TRIAL))
    const cgroups = rootless ? undefined : await findLayout()
    if (runtime === 'runc' && !cgroups) throw unavailable('runc needs cgroups, which cannot be made here', 'use bwrap')
    const groups = (await holder.run(line('unshare', '--net', 'sh', '-c', NETWORK_TEST))).code === 0
    await writeFile(filterPath(store), seccompFilter(machine))
    return {
      store,
      log,
      runtime,
      machine,
      rootless,
      cgroups,
      loop,
      groups,
      launcher: await findLauncher(),
      holders: createNamespacePool({ rootless, ownProcesses: runtime === 'runc' }),
      pipes: pipesOf(store),
    }
  } finally {
    await holder.end()
  }
}

const TRIAL = ['--ro-bind', '/', '/', '--proc', '/proc', '--unshare-pid', '--unshare-net', '--unshare-ipc', 'true']

/** Script that tests for sandbox networks, which require iproute2 and a kernel with bridges. */
const NETWORK_TEST =
  'ip link add name br0 type bridge && ip link add name v0 type veth peer name v1 && ip link set dev v0 master br0'

export const filterPath = (store: ImageStore): string => join(store.folder, 'seccomp.bpf')

/** Returns mount options of overlay: those that an ordinary user needs, and those that make layers movable. */
export const overlayOptions = (rootless: boolean): string =>
  rootless ? 'userxattr' : 'redirect_dir=off,metacopy=off,index=off'

const unavailable = (why: string, hint = 'use docker'): SandboxUnavailable =>
  new SandboxUnavailable(`The local sandbox does not work here: ${why}. Instead, ${hint}.`)

/** Checks that the runtime is still installed on a machine where it worked before. */
export async function requireRuntime(runtime: Runtime): Promise<void> {
  for (const folder of TOOLS_PATH.split(':')) {
    const isThere = await access(join(folder, runtime), constants.X_OK).then(
      () => true,
      () => false,
    )
    if (isThere) return
  }
  throw unavailable(`${runtime} is no longer installed`, `install ${runtime} or use docker`)
}

async function findTools(runtime: Runtime): Promise<void> {
  for (const program of [runtime, 'unshare', 'setpriv', 'mount']) {
    const { code } = await tryProgram(program, ['--version'])
    if (code === 127) throw unavailable(`${program} is not installed`, `install ${program} or use docker`)
  }
}

async function tryOverlay(store: ImageStore, rootless: boolean, must: NamespaceHolder['runOrThrow']): Promise<void> {
  const folder = join(store.folder, await newDraft())
  await mkdir(folder)
  try {
    for (const name of ['lower', 'upper', 'work', 'root']) await mkdir(join(folder, name))
    const options = `lowerdir=lower,upperdir=upper,workdir=work,${overlayOptions(rootless)}`
    await must(
      'Mounting an overlay',
      `cd ${line(folder)} && ${line('mount', '-t', 'overlay', 'overlay', '-o', options, 'root')} && umount root`,
    )
  } finally {
    await rm(folder, { recursive: true })
  }
}

type NamespaceHolder = Awaited<ReturnType<typeof startNamespaceProcess>>

async function canLoop(store: ImageStore, run: NamespaceHolder['run']): Promise<boolean> {
  const folder = join(store.folder, await newDraft())
  await mkdir(folder)
  try {
    const script = 'truncate -s 4M disk && mkfs.ext4 -q disk && mkdir on && mount -o loop disk on && umount on'
    return (await run(`cd ${line(folder)} && ${script}`)).code === 0
  } finally {
    await rm(folder, { recursive: true })
  }
}

async function findLauncher(): Promise<LocalLauncher> {
  const [setpriv = '', sh = '', setsid = ''] = await Promise.all(['setpriv', 'sh', 'setsid'].map(findProgram))
  const { output } = await tryProgram('ldd', [setpriv, sh, setsid])
  const files = new Set(output.split('\n').flatMap((text) => /(?:=> |^\s*)(\/\S+) \(/.exec(text)?.[1] ?? []))
  const loader = [...files].find((file) => basename(file).startsWith('ld-'))
  if (loader === undefined) throw unavailable(`the libraries of ${setpriv} were not found`)
  return { loader, setpriv, sh, setsid, libraries: [...files].filter((file) => file !== loader) }
}

const findProgram = async (name: string): Promise<string> =>
  (await tryProgram('sh', ['-c', `command -v ${name}`])).output.trim()

/** Pool of unused namespace processes. Starting one takes three processes, more than many sandboxes need. */
type NamespacePool = {
  take(): Promise<NamespaceProcess>
  /** Reports whether the process belongs to this pool. */
  owns(holder: NamespaceProcess): boolean
  /** Gives back a process whose sandbox and mounts have been removed. */
  giveBack(holder: NamespaceProcess): Promise<void>
}

const SPARE_MAX = 8

function createNamespacePool(options: Pick<NamespaceOptions, 'rootless' | 'ownProcesses'>): NamespacePool {
  const spare: NamespaceProcess[] = []
  const ours = new WeakSet<NamespaceProcess>()
  return {
    async take() {
      for (let holder = spare.pop(); holder !== undefined; holder = spare.pop()) {
        if (holder.hasExited()) continue
        holder.setReferenced(true)
        return holder
      }
      const holder = await startNamespaceProcess({ ...options, beside: undefined, cwd: '/' })
      ours.add(holder)
      return holder
    },
    owns: (holder) => ours.has(holder),
    async giveBack(holder) {
      if (spare.length >= SPARE_MAX || holder.hasExited()) return holder.end()
      // Unused namespace processes must not keep this process alive.
      holder.setReferenced(false)
      spare.push(holder)
    },
  }
}

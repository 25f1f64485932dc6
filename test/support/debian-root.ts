import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { equippedRootfs } from './base-image.ts'

const run = promisify(execFile)

/** Sandboxes cannot be started in a changed root, so the folder becomes the root of a mount namespace. */
const ENTER = `set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs tmp
mkdir -p .machine
pivot_root . .machine
exec chroot . /bin/sh -c 'umount -l /.machine && cd / && eval "$1"' sh "$2"`

/** Hierarchies of groups that systemd uses. */
const HIERARCHIES = ['memory', 'pids', 'systemd', 'unified'].map((name) => `/sys/fs/cgroup/${name}`)

/** Starts systemd of the folder $1 as the first process of a machine of its own, with the group $2 as its root group. */
const BOOT = `set -e
for each in ${HIERARCHIES.join(' ')}; do mkdir $each/$2; echo $$ > $each/$2/cgroup.procs; done
exec unshare --mount --propagation private --pid --fork --kill-child --net --uts --ipc --cgroup sh -ec '
ip link set lo up
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
for each in dev tmp run sys/fs/cgroup; do mount -t tmpfs tmpfs $each; done
for each in null zero full random urandom tty; do touch dev/$each; mount --bind /dev/$each dev/$each; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
(cd sys/fs/cgroup && mkdir memory pids systemd unified)
for each in memory pids; do mount -t cgroup -o $each cgroup sys/fs/cgroup/$each; done
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
mkdir -p .machine
pivot_root . .machine
exec chroot . /usr/bin/env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -c "umount -l /.machine; exec /lib/systemd/systemd --system --log-target=null --show-status=no"' boot "$1"`

type ShellResult = { code: number; output: string }

/** Runs a shell script as root. */
type RootShell = (script: string) => Promise<ShellResult>

export type DebianRoot = AsyncDisposable & {
  folder: string
  shell: RootShell
  /** Starts systemd and waits until all units have started. The machine is switched off like a computer without power. */
  boot(): Promise<AsyncDisposable & { shell: RootShell }>
}

/** Whether systemd of Debian 12 can be started beside the one of this machine. */
export const canBoot = (): boolean => HIERARCHIES.every((folder) => existsSync(join(folder, 'cgroup.procs')))

/** Copies a Debian with these packages into a temporary folder, which has no network. */
export async function openDebianRoot(...packages: string[]): Promise<DebianRoot> {
  const install = `apt-get update && apt-get install -y --no-install-recommends ${packages.join(' ')}`
  const folder = await mkdtemp(join(tmpdir(), 'assay-debian-'))
  await run('cp', ['-a', `${await equippedRootfs('debian-root', install, 'bookworm')}/.`, folder])
  return {
    folder,
    shell: (script) => enter(folder, script),
    boot: () => boot(folder),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

const ENVIRONMENT = {
  HOME: '/root',
  LC_ALL: 'C.UTF-8',
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
}

function enter(folder: string, script: string): Promise<ShellResult> {
  const namespaces = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--net']
  return runProgram('unshare', [...namespaces, 'sh', '-c', `ip link set lo up; ${ENTER}`, 'enter', folder, script])
}

async function boot(folder: string): Promise<AsyncDisposable & { shell: RootShell }> {
  const group = basename(folder)
  const machine = spawn('bash', ['-c', BOOT, 'boot', folder, group], { env: ENVIRONMENT, stdio: 'inherit' })
  const exited = once(machine, 'exit')
  const findFirstProcess = async (): Promise<string> =>
    (await readFile(`/proc/${machine.pid}/task/${machine.pid}/children`, 'utf8')).trim()
  const shell: RootShell = async (script) => {
    const namespaces = ['--mount', '--pid', '--net', '--uts', '--ipc', '--cgroup']
    return runProgram('nsenter', ['--target', await findFirstProcess(), ...namespaces, 'sh', '-c', script])
  }
  while (machine.exitCode === null && (await shell('systemctl is-system-running --wait')).code !== 0) await delay(100)
  return {
    shell,
    async [Symbol.asyncDispose]() {
      // All other processes end before the first one.
      process.kill(Number(await findFirstProcess()), 'SIGKILL')
      await exited
      for (const hierarchy of HIERARCHIES)
        await run('find', [join(hierarchy, group), '-depth', '-type', 'd', '-delete'])
    },
  }
}

async function runProgram(program: string, args: string[]): Promise<ShellResult> {
  const child = spawn(program, args, { env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code, output: out + err }
}

/** Copies a file of this machine into the folder. */
export const copyInto = ({ folder }: DebianRoot, from: string, to: string): Promise<void> => cp(from, join(folder, to))

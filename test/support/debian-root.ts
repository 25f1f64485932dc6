import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
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

export type DebianRoot = AsyncDisposable & {
  folder: string
  /** Runs a shell script as root in it. */
  shell(script: string): Promise<{ code: number; output: string }>
}

/** Copies a Debian with these packages into a temporary folder, which has no network. */
export async function openDebianRoot(...packages: string[]): Promise<DebianRoot> {
  const install = `apt-get update && apt-get install -y --no-install-recommends ${packages.join(' ')}`
  const folder = await mkdtemp(join(tmpdir(), 'assay-debian-'))
  await run('cp', ['-a', `${await equippedRootfs('debian-root', install, 'bookworm')}/.`, folder])
  return {
    folder,
    shell: (script) => enter(folder, script),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

async function enter(folder: string, script: string): Promise<{ code: number; output: string }> {
  const namespaces = ['--mount', '--propagation', 'private', '--pid', '--fork', '--kill-child', '--net']
  const env = { HOME: '/root', LC_ALL: 'C.UTF-8', PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }
  const child = spawn('unshare', [...namespaces, 'sh', '-c', `ip link set lo up; ${ENTER}`, 'enter', folder, script], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { code, output: out + err }
}

/** Copies a file of this machine into the folder. */
export const copyInto = ({ folder }: DebianRoot, from: string, to: string): Promise<void> => cp(from, join(folder, to))

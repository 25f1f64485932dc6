// Mirrors repositories from a real sshd at a public address, in a network namespace in which nothing else exists.
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { MirrorSource } from '../../src/repos/mirror/source.ts'
import { equippedRootfs } from './base-image.ts'
import { PUBLIC } from './loopback-servers.ts'

const run = promisify(execFile)
export const SSH_PORT = 2222
const INSTALL = 'apt-get update && apt-get install --yes --no-install-recommends git openssh-server'

const CONFIG = `Port ${SSH_PORT}
HostKey /srv/host-key
AuthorizedKeysFile /srv/user-key.pub
StrictModes no
UsePAM no
`

const SCRIPT = `ip link set lo up && ip address add ${PUBLIC}/32 dev lo
bwrap --ro-bind "$1" / --ro-bind "$2" /srv --dev /dev --proc /proc --tmpfs /run --dir /run/sshd --cap-add ALL --die-with-parent /usr/sbin/sshd -D -e -f /srv/sshd_config &
server=$!
"$3" "$4" "$2"
kill $server`

export type MirrorOutcome = { tip?: string | undefined; error?: string }

/**
 * Serves a folder with `host-key`, `user-key.pub` and repositories as /srv, and opens a mirror of each source. The tip
 * or the error of each is returned.
 */
export async function mirrorBySsh(folder: string, sources: MirrorSource[]): Promise<MirrorOutcome[]> {
  await writeFile(join(folder, 'sshd_config'), CONFIG)
  await writeFile(join(folder, 'sources.json'), JSON.stringify(sources))
  const rootfs = await equippedRootfs('sshd', INSTALL, 'bookworm')
  const args = ['--net', '--kill-child', '--fork', 'sh', '-c', SCRIPT, 'sh', rootfs, folder]
  const { stdout } = await run('unshare', [
    ...args,
    process.execPath,
    join(import.meta.dirname, 'ssh-mirrors-process.ts'),
  ])
  return JSON.parse(stdout)
}

import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { access, mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

export type DebianSuite = 'bookworm' | 'trixie'
const MAKE_TIMEOUT_MS = 10 * 60_000
const EQUIP_TIMEOUT_MS = 30 * 60_000
const run = promisify(execFile)

const { ASSAY_TEST_CACHE, XDG_CACHE_HOME } = process.env
const cache = ASSAY_TEST_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'assay-test')

/** Returns the cache folder for images that take long to build. It is outside the repository. */
export async function cacheFolder(): Promise<string> {
  await mkdir(cache, { recursive: true })
  return cache
}

/**
 * Builds the image in a temporary folder and moves it when complete; a second run waits for the first. Manuals,
 * translations and package lists are removed, because one test run imports the image a hundred times.
 */
const MAKE = `set -e
[ -d "$2" ] && exit 0
rm -rf "$2.draft" && debootstrap --variant=minbase "$1" "$2.draft"
cd "$2.draft" && rm -rf var/cache/apt/* var/lib/apt/lists/*
find usr/share/doc usr/share/info usr/share/locale usr/share/man ! -type d -delete
mv "$2.draft" "$2"`

/**
 * Returns a folder with a small Debian, the base of all test images, because no image registry is reachable. Built on
 * first use in about two minutes (80 MB). Requires root and debootstrap.
 */
export async function baseRootfs(suite: DebianSuite = 'bookworm'): Promise<string> {
  const rootfs = join(cache, `rootfs-${suite}-slim-${await architecture()}`)
  if (await exists(rootfs)) return rootfs
  await cacheFolder()
  const args = [join(cache, 'rootfs.lock'), 'sh', '-c', MAKE, 'make', suite, rootfs]
  await run('flock', args, { timeout: MAKE_TIMEOUT_MS, maxBuffer: 64e6 })
  return rootfs
}

/** Installing packages needs the certificates and DNS settings of this machine. The mounts end with their namespace. */
const EQUIP = `set -e
[ -d "$2" ] && exit 0
rm -rf "$2.draft" && cp -a "$1" "$2.draft"
cp /etc/ssl/certs/ca-certificates.crt "$2.draft/usr/local/share/machine.crt"
cp /etc/resolv.conf /etc/hosts "$2.draft/etc/"
mount -t proc proc "$2.draft/proc"
chroot "$2.draft" env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -e -c "$3"
umount "$2.draft/proc"
rm -rf "$2.draft/var/cache/apt/archives" "$2.draft/var/lib/apt/lists"
mv "$2.draft" "$2"`

/** Returns a Debian on which a shell script ran, with network access. Cached by name and script. */
export async function equippedRootfs(name: string, script: string, suite: DebianSuite = 'trixie'): Promise<string> {
  const base = await baseRootfs(suite)
  const hash = createHash('sha256').update(script).digest('hex').slice(0, 12)
  const rootfs = join(cache, `rootfs-${name}-${suite}-${hash}-${await architecture()}`)
  if (await exists(rootfs)) return rootfs
  const args = [`${rootfs}.lock`, 'unshare', '--mount', 'sh', '-c', EQUIP, 'equip', base, rootfs, script]
  await run('flock', args, { timeout: EQUIP_TIMEOUT_MS, maxBuffer: 64e6 })
  return rootfs
}

const architecture = async (): Promise<string> => (await run('dpkg', ['--print-architecture'])).stdout.trim()

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

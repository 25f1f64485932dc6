import { execFile } from 'node:child_process'
import { access, mkdir } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const SUITE = 'bookworm'
const MAKE_TIMEOUT_MS = 10 * 60_000
const run = promisify(execFile)

const { ASSAY_TEST_CACHE, XDG_CACHE_HOME } = process.env
const cache = ASSAY_TEST_CACHE ?? join(XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'assay-test')

/** What takes long to make is kept here, outside the repository. */
export async function cacheFolder(): Promise<string> {
  await mkdir(cache, { recursive: true })
  return cache
}

/** Built beside its place and moved there when complete; a second run waits for the first. Never changed afterwards. */
const MAKE = `[ -d "$2" ] || { rm -rf "$2.draft" && debootstrap --variant=minbase "$1" "$2.draft" && mv "$2.draft" "$2"; }`

/**
 * A folder with a small Debian, the base of the images in tests: no registry can be reached from here. Made outside the
 * repository on first use (about two minutes, 200 MB), which takes root and debootstrap.
 */
export async function baseRootfs(): Promise<string> {
  const { stdout } = await run('dpkg', ['--print-architecture'])
  const rootfs = join(cache, `rootfs-${SUITE}-${stdout.trim()}`)
  if (await exists(rootfs)) return rootfs
  await cacheFolder()
  const args = [join(cache, 'rootfs.lock'), 'sh', '-c', MAKE, 'make', SUITE, rootfs]
  await run('flock', args, { timeout: MAKE_TIMEOUT_MS, maxBuffer: 64e6 })
  return rootfs
}

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  )

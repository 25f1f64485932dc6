import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chown, mkdir, rm, rmdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { baseRootfs } from '../../test/support/base-image.ts'
import { NOBODY, runAsNobody, runAsUser } from '../../test/support/sandboxes/as-nobody.ts'

const run = promisify(execFile)

/** The base image as an ordinary user would have it: all of it its own. */
async function makeOwnRootfs(home: string): Promise<void> {
  const rootfs = join(home, 'rootfs')
  await run('cp', ['-a', '-T', await baseRootfs(), rootfs])
  await rm(join(rootfs, 'dev'), { recursive: true })
  await mkdir(join(rootfs, 'dev'))
  await run('chmod', ['-R', 'u+rwX', rootfs])
  await run('chown', ['-R', '-h', `${NOBODY}:${NOBODY}`, home])
}

test.skipIf(process.getuid?.() !== 0)(
  'the local sandbox passes the conformance tests for an ordinary user',
  {
    timeout: 300_000,
  },
  async () => {
    const { code, output } = await runAsNobody('ordinary-user.ts', makeOwnRootfs)
    expect(code, output).toBe(0)
  },
)

const UNIFIED = '/sys/fs/cgroup'
const HAS_UNIFIED = existsSync(join(UNIFIED, 'cgroup.controllers'))

/** Delegates a new cgroup to a user, as systemd does for a service with `Delegate=yes`. */
async function delegateCgroup(uid: number): Promise<AsyncDisposable & { folder: string }> {
  const folder = join(UNIFIED, `assay-test-${process.pid}.service`)
  await mkdir(folder)
  for (const name of ['', 'cgroup.procs', 'cgroup.subtree_control', 'cgroup.threads'])
    await chown(join(folder, name), uid, uid)
  return {
    folder,
    async [Symbol.asyncDispose]() {
      await rmdir(join(folder, 'assay-itself'))
      await rmdir(folder)
    },
  }
}

test.skipIf(process.getuid?.() !== 0 || !HAS_UNIFIED)(
  'in a delegated cgroup, the limits of memory, processes and CPUs hold for an ordinary user too (cgroup v2)',
  { timeout: 300_000 },
  async () => {
    await using cgroup = await delegateCgroup(NOBODY)
    const user = { uid: NOBODY, gid: NOBODY, cgroup: cgroup.folder }
    const { code, output } = await runAsUser(user, 'ordinary-user.ts', makeOwnRootfs)
    expect(code, output).toBe(0)
    expect(output).not.toContain('no cgroups')
  },
)

import { execFile } from 'node:child_process'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { baseRootfs } from '../../test/support/base-image.ts'
import { NOBODY, runAsNobody } from '../../test/support/sandboxes/as-nobody.ts'

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

import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { baseRootfs } from '../../test/support/base-image.ts'

const NOBODY = 65534
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const run = promisify(execFile)

/** The base image as an ordinary user would have it: all of it its own. */
async function makeOwnRootfs(folder: string): Promise<void> {
  const rootfs = join(folder, 'rootfs')
  await run('cp', ['-a', '-T', await baseRootfs(), rootfs])
  await rm(join(rootfs, 'dev'), { recursive: true })
  await mkdir(join(rootfs, 'dev'))
  await run('chmod', ['-R', 'u+rwX', rootfs])
  await run('chown', ['-R', '-h', `${NOBODY}:${NOBODY}`, folder])
}

test.skipIf(process.getuid?.() !== 0)(
  'the local sandbox conforms for an ordinary user too',
  { timeout: 300_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'assay-ordinary-'))
    try {
      const config = join(folder, 'vitest.config.mjs')
      const include = ['src/sandboxes/testing/ordinary-user.ts']
      await writeFile(config, `export default ${JSON.stringify({ root: ROOT, cacheDir: folder, test: { include } })}`)
      await makeOwnRootfs(folder)

      const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
      const child = spawn(process.execPath, [vitest, 'run', '--no-color', '--config', config], {
        uid: NOBODY,
        gid: NOBODY,
        cwd: ROOT,
        env: {
          PATH: `${dirname(process.execPath)}:/usr/sbin:/usr/bin:/bin`,
          HOME: folder,
          TMPDIR: folder,
        },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')])
      expect(code, output).toBe(0)
    } finally {
      await rm(folder, { recursive: true })
    }
  },
)

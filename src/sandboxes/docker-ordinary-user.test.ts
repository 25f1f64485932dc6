import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { importBase, startDockerd } from '../../test/support/dockerd.ts'

const NOBODY = 65534
const ROOT = fileURLToPath(new URL('../..', import.meta.url))

test('the docker sandbox conforms for an ordinary user too, whose ports are carried by a relay', {
  timeout: 600_000,
}, async () => {
  await using dockerd = await startDockerd()
  await importBase(dockerd)
  const folder = await mkdtemp(join(tmpdir(), 'assay-ordinary-'))
  try {
    const config = join(folder, 'vitest.config.mjs')
    const include = ['src/sandboxes/testing/ordinary-docker-user.ts']
    await writeFile(config, `export default ${JSON.stringify({ root: ROOT, cacheDir: folder, test: { include } })}`)
    await symlink(dockerd.socket, join(folder, 'docker.sock'))
    await chown(folder, NOBODY, NOBODY)

    const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs')
    const child = spawn(process.execPath, [vitest, 'run', '--no-color', '--config', config], {
      ...{ uid: NOBODY, gid: NOBODY, cwd: ROOT },
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
})

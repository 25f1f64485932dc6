import { execFile } from 'node:child_process'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { baseImages, importImage } from '../../test/support/dockerd.ts'
import { runAsUser } from '../../test/support/sandboxes/as-nobody.ts'
import { connectDocker } from './docker/client.ts'

const run = promisify(execFile)
/** Name of a user whose own systemd runs a rootless engine, as `dockerd-rootless-setuptool.sh install` sets it up. */
const USER = process.env.ASSAY_TEST_ROOTLESS_USER ?? ''

const readId = async (option: string): Promise<number> => Number((await run('id', [option, USER])).stdout)

test.skipIf(USER === '' || process.getuid?.() !== 0)(
  'a rootless Docker engine passes the conformance tests for its user, limits included',
  { timeout: 600_000 },
  async () => {
    const [uid, gid] = [await readId('-u'), await readId('-g')]
    const socket = `/run/user/${uid}/docker.sock`
    const docker = connectDocker({ kind: 'unix', path: socket })
    for (const [name, rootfs] of Object.entries(await baseImages())) await importImage({ docker }, name, rootfs)
    docker.close()
    const { code, output } = await runAsUser({ uid, gid }, 'ordinary-docker-user.ts', (home) =>
      symlink(socket, join(home, 'docker.sock')),
    )
    expect(code, output).toBe(0)
  },
)

import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { baseImages, startDockerd } from '../../test/support/dockerd.ts'
import { runAsNobody } from '../../test/support/sandboxes/as-nobody.ts'

test('the docker sandbox passes the conformance tests for an ordinary user, with ports carried by a relay', {
  timeout: 600_000,
}, async () => {
  await using dockerd = await startDockerd({ images: await baseImages() })
  const { code, output } = await runAsNobody('ordinary-docker-user.ts', (home) =>
    symlink(dockerd.socket, join(home, 'docker.sock')),
  )
  expect(code, output).toBe(0)
})

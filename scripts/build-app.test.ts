import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { NOBODY } from '../test/support/sandboxes/as-nobody.ts'

test.skipIf(process.getuid?.() !== 0)('reports a folder that is not writable instead of waiting forever', async () => {
  const builder = join(import.meta.dirname, 'build-app.ts')
  const child = spawn(process.execPath, [builder], {
    uid: NOBODY,
    gid: NOBODY,
    env: { NODE_COMPILE_CACHE: '' },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const [message, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
  expect(message).toContain('EACCES')
  expect(code).toBe(1)
})

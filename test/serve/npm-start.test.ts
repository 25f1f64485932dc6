import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')

test('SIGTERM to npm start stops the service and its database', async () => {
  const data = mkdtempSync(join(tmpdir(), 'assay-npm-start-'))
  const env = { ...process.env, ASSAY_DATA: data, ASSAY_PORT: '0', ASSAY_GATEWAY_PORT: '0' }
  const npm = spawn('npm', ['start'], { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'ignore'] })
  for await (const line of createInterface({ input: npm.stdout })) if (line.startsWith('assay ready')) break
  const postmaster = join(data, 'postgres/data/postmaster.pid')
  expect(existsSync(postmaster)).toBe(true)
  npm.kill('SIGTERM')
  // The pipe closes when the last process that writes to it has ended.
  npm.stdout.resume()
  await once(npm, 'close')
  expect(existsSync(postmaster)).toBe(false)
  rmSync(data, { recursive: true, force: true })
})

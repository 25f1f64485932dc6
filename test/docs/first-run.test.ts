import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startProvider } from '../../samples/provider/provider.ts'
import { ProviderScript } from '../../samples/provider/script.ts'
import { ROOT } from '../../scripts/files.ts'
import { hasPart } from '../support/parts.ts'
import { FIRST_RUN } from './first-run.ts'

vi.setConfig({ testTimeout: 240_000 })

test.runIf(hasPart('bwrap'))('the first trial of your own model takes at most three commands', async () => {
  expect(FIRST_RUN.split('\n').length).toBeLessThanOrEqual(3)
  const script = ProviderScript.parse(JSON.parse(readFileSync(join(ROOT, 'samples/provider/quick.json'), 'utf8')))
  await using provider = await startProvider(script)
  const data = mkdtempSync(join(tmpdir(), 'assay-first-run-'))
  onTestFinished(() => rmSync(data, { recursive: true, force: true }))
  const commands = FIRST_RUN.replaceAll('127.0.0.1:11434', new URL(provider.url).host)
  const options = { cwd: ROOT, env: { ...process.env, ASSAY_DATA: data } }
  const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', commands], options)
  expect(stdout).toContain('1 of 1 passed')
  expect(provider.calls().length).toBeGreaterThan(0)
})

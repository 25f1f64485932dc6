import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, expect, test } from 'vitest'
import { hasTerminal, onTerminal } from '../support/assay-command.ts'

const BIN = new URL('../../bin/assay', import.meta.url).pathname
const folder = mkdtempSync(join(tmpdir(), 'assay-demo-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function demo(environment: Record<string, string>) {
  const env = { ...process.env, ASSAY_DATA: join(folder, 'data'), ...environment }
  const child = spawn(process.execPath, [BIN, 'demo'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  return { out, err, code }
}

test('compares settings without keys, network or Docker', async () => {
  const { out, err, code } = await demo({ DOCKER_HOST: 'unix:///nowhere.sock' })
  expect(out).toMatch(/^reference\|oracle\|none +5\/5 +100\.0 %.*yes$/m)
  expect(out).toMatch(/^reference\|nop\|none +0\/5 +0\.0 %/m)
  // The small budget pauses the comparison; with the larger one it completes.
  expect(err).toMatch(/^The comparison is paused: .*budget of \$0\.01 .*Resume with a larger budget/m)
  expect(out).toMatch(/^custom\/scripted\|mini\|low +2\/5 +40\.0 %/m)
  expect(out).toMatch(/^custom\/scripted\|mini\|high +5\/5 +100\.0 %/m)
  // The demo ends with an answer.
  expect(out).toMatch(/^(Use|Tentatively use) scripted-1 with mini at high: it solved 5 of 5 tasks for \$\S+ each\. /m)
  expect(out).toContain('Next steps')
  expect(code).toBe(0)
})

test.runIf(hasTerminal)('on a terminal it ends with the address of the result and runs until Ctrl-C', async () => {
  const env = { ASSAY_DATA: join(folder, 'terminal'), DOCKER_HOST: 'unix:///nowhere.sock' }
  const { out } = await onTerminal(['demo'], env, (shown) =>
    shown.includes('Ctrl-C stops the service') ? '\u0003' : undefined,
  )
  expect(out).toMatch(/The result: http:\/\/\S+\/app\/benchmarks\/assay\/quick\/comparisons\/[0-9a-f-]{36}/)
  expect(out).toMatch(/Sign in with this key: assay_\w{38}/)
})

test('without bubblewrap and runc, exits before starting and names the package to install', async () => {
  const { err, code } = await demo({ PATH: join(folder, 'empty') })
  expect([code, err.trim()]).toEqual([3, expect.stringContaining('assay setup --yes bwrap')])
})

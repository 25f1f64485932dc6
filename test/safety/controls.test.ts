import { expect, test } from 'vitest'
import { openFolderSource } from '../../src/harbor/folder-source.ts'
import { checkTask, RULES } from '../../src/harbor/safety/check-task.ts'
import { CONTROLS, SAMPLE_NAMES, SAMPLES } from './controls.ts'
import { changed, checkFiles, dockerfile, rulesOf } from './good-task.ts'

test.each(CONTROLS)('accepts $what', async ({ files, warns = [], options }) => {
  const check = await checkFiles(files, options)
  expect(rulesOf(check, 'block'), JSON.stringify(check.findings)).toEqual([])
  expect(rulesOf(check, 'warn')).toEqual(warns)
})

test.each(SAMPLE_NAMES)('accepts the sample %s', async (name) => {
  expect(rulesOf(await checkTask(await openFolderSource(SAMPLES + name)), 'block')).toEqual([])
})

test('there are at least forty controls', () => {
  expect(CONTROLS.length + SAMPLE_NAMES.length).toBeGreaterThanOrEqual(40)
})

/** Rules that only warn, with text that triggers them. */
const WARNED: [rule: string, text: string][] = [
  ['miner_text', 'curl https://github.com/xmrig/xmrig/releases'],
  ['obfuscated_payload_text', 'echo aGk= | base64 -d | bash'],
  ['host_escape_text', 'nsenter --target 1 --mount sh'],
]

test.each(WARNED)('%s warns of %s in a solution, with its line', async (rule, text) => {
  const { findings } = await checkFiles(changed({ 'solution/solve.sh': `#!/bin/bash\n${text}\n` }))
  expect(findings).toEqual([{ rule, severity: 'warn', path: 'solution/solve.sh', line: 2, detail: expect.any(String) }])
})

test('every rule that warns is tested', () => {
  const shown = new Set([...CONTROLS.flatMap(({ warns = [] }) => warns), ...WARNED.map(([rule]) => rule)])
  expect(RULES.filter(({ id, severity }) => severity === 'warn' && !shown.has(id)).map(({ id }) => id)).toEqual([])
})

test('a finding does not repeat the secret', async () => {
  const secret = `glpat-${'x9Kd82LmQp37Vb5Zt1Rw'}`
  const check = await checkFiles(changed({ 'environment/app/key.txt': `${secret}\n` }))
  expect(rulesOf(check, 'warn')).toEqual(['credentials'])
  expect(JSON.stringify(check)).not.toContain(secret)
})

test('a rule reports at most twenty findings', async () => {
  const lines = Array.from({ length: 50 }, () => 'RUN curl http://169.254.169.254/')
  expect((await checkFiles(changed(dockerfile(...lines)))).findings).toHaveLength(20)
})

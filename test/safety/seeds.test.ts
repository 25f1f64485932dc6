import { execFileSync } from 'node:child_process'
import { symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openFolderSource } from '../../src/harbor/folder-source.ts'
import { checkTask, RULES, RULES_VERSION } from '../../src/harbor/safety/check-task.ts'
import { temporaryFolder, writeFiles } from '../support/harbor/folders.ts'
import { checkFiles, GOOD_TASK, rulesOf } from './good-task.ts'
import { SEEDS } from './seeds.ts'

test('the good task has no findings', async () => {
  expect(await checkFiles(GOOD_TASK)).toEqual({
    rules: RULES_VERSION,
    findings: [],
    strength: {
      strength: 'weak',
      reason: 'tests/test_median.py imports median, which is not known to only read data.',
    },
  })
})

test.each(SEEDS)('$rule refuses $what, and no other rule does', async ({ rule, files }) => {
  const check = await checkFiles(files)
  expect(rulesOf(check, 'block'), JSON.stringify(check.findings)).toEqual([rule])
})

test.each([
  ['a link that leads out', (folder: string) => symlink('/etc/passwd', join(folder, 'environment/users'))],
  ['a link to a folder', (folder: string) => symlink('app', join(folder, 'environment/other'))],
  ['a pipe', async (folder: string) => void execFileSync('mkfifo', [join(folder, 'environment/pipe')])],
])('links_and_devices refuses %s, and no other rule does', async (_, add) => {
  await using folder = await temporaryFolder()
  await writeFiles(folder.path, GOOD_TASK)
  await add(folder.path)
  expect(rulesOf(await checkTask(await openFolderSource(folder.path)), 'block')).toEqual(['links_and_devices'])
})

test('there are at least forty bad tasks, and one for each blocking rule', () => {
  expect(SEEDS.length).toBeGreaterThanOrEqual(40)
  const seeded = new Set([...SEEDS.map(({ rule }) => rule), 'links_and_devices'])
  expect(RULES.filter(({ severity, id }) => severity === 'block' && !seeded.has(id)).map(({ id }) => id)).toEqual([])
})

test('rule names are unique', () => {
  expect(new Set(RULES.map(({ id }) => id)).size).toBe(RULES.length)
})

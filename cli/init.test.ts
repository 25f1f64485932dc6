import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { assay } from '../test/support/assay-command.ts'

const folder = mkdtempSync(join(tmpdir(), 'assay-init-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.each([['bash'], ['c'], ['go'], ['node'], ['python']])(
  'a new task in %s passes the safety check',
  async (language) => {
    const task = join(folder, `My task in ${language}`)
    expect(await assay(['init', task, '--language', language])).toMatchObject({
      code: 0,
      out: expect.stringContaining(`assay trial '${task}' --harness oracle --expect pass`),
    })
    expect(await assay(['check', task])).toMatchObject({
      code: 0,
      out: expect.stringContaining('1 checked, 0 refused'),
    })
    const settings = readFileSync(join(task, 'task.toml'), 'utf8')
    expect(settings).not.toMatch(/Assay/i)
    if (language !== 'bash') expect(settings).toContain(`name = "my/my-task-in-${language}"`)
  },
)

test('refuses a folder with files, and lists the known languages for an unknown one', async () => {
  const before = readFileSync(join(folder, 'My task in bash/task.toml'), 'utf8')
  expect(await assay(['init', join(folder, 'My task in bash'), '--language', 'go'])).toMatchObject({
    code: 2,
    err: expect.stringContaining('is not empty'),
  })
  expect(readFileSync(join(folder, 'My task in bash/task.toml'), 'utf8')).toBe(before)
  expect(await assay(['init', join(folder, 'x'), '--language', 'pascal'])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/bash, c, go, node, python/),
  })
})

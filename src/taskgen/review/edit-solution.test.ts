import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { environment } from '../../../test/support/histories.ts'
import { applyEdits } from './edit-solution.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-edits-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const git = (...args: string[]): string =>
  execFileSync('git', args, { cwd: folder, env: environment, encoding: 'latin1' })

function write(path: string, text: string): void {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text, 'latin1')
}

const latin1 = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')

test('an edited solution applies to the base and keeps the files that are not edited', () => {
  git('init', '--quiet')
  const before = { 'src/a "1".py': latin1('a = "ä"\r\nb = 2'), 'b.py': 'b\n', 'gone.py': 'x\n' }
  const after = { 'src/a "1".py': latin1('a = "ä"\r\nb = 3'), 'b.py': 'B\n', 'neu/ö.py': latin1('n = "ö"\n') }
  for (const [path, text] of Object.entries(before)) write(path, text)
  git('add', '-A')
  const base = git('write-tree').trim()
  for (const [path, text] of Object.entries(after)) write(path, text)
  rmSync(join(folder, 'gone.py'))
  git('add', '-A')
  const source = git('diff', '--cached', '--no-renames', '--full-index', base)
  const files = [...new Set([...Object.keys(before), ...Object.keys(after)])].map((path) => ({
    path,
    before: Object.entries(before).find(([each]) => each === path)?.[1] ?? null,
    after: Object.entries(after).find(([each]) => each === path)?.[1] ?? null,
  }))
  const edited = applyEdits(source, files, [
    { path: 'src/a "1".py', find: '"ä"\r\nb = 3', replace: '"ü"\r\nb = 4\n' },
    { path: 'neu/ö.py', find: 'ö', replace: 'é' },
  ])
  if (edited.kind !== 'applied') throw new Error(edited.fault)
  git('read-tree', '--reset', '-u', base)
  writeFileSync(join(folder, '.git/wrong.patch'), edited.patch, 'latin1')
  git('apply', '--index', '.git/wrong.patch')
  const read = (path: string) => readFileSync(join(folder, path), 'utf8')
  expect([read('src/a "1".py'), read('b.py'), read('neu/ö.py')]).toEqual(['a = "ü"\r\nb = 4\n', 'B\n', 'n = "é"\n'])
  expect(git('ls-files', 'gone.py')).toBe('')
})

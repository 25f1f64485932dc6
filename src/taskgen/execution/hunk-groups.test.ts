import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { environment } from '../../../test/support/histories.ts'
import { omitEachGroup } from './execute.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-hunks-'))
  git('init', '--quiet')
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const git = (...args: string[]): string =>
  execFileSync('git', args, { cwd: folder, env: environment, encoding: 'latin1' })

function treeOf(files: Record<string, string>): string {
  git('read-tree', '--empty')
  for (const [path, text] of Object.entries(files)) {
    writeFileSync(join(folder, 'content'), text, 'latin1')
    const id = git('hash-object', '-w', 'content').trim()
    git('update-index', '--add', '--cacheinfo', `100644,${id},${path}`)
  }
  return git('write-tree').trim()
}

const diff = (from: string, to: string): string =>
  git('diff-tree', '-r', '-p', '--binary', '--full-index', '--no-renames', '-U3', from, to)

function applied(tree: string, patch: string): string {
  git('read-tree', tree)
  if (patch === '') return tree
  writeFileSync(join(folder, 'patch'), patch, 'latin1')
  git('apply', '--cached', '--binary', 'patch')
  return git('write-tree').trim()
}

const FILLER = Array.from({ length: 12 }, (_, n) => `same ${n}`)
const file = (...changes: string[]): string => changes.flatMap((change) => [change, ...FILLER]).join('\n')

test('omitting a hunk keeps the positions of the others', () => {
  const base = treeOf({ 'a.py': file('one', 'two', 'three'), 'gone.py': 'x\n', 'b.bin': '\0old' })
  const head = treeOf({ 'a.py': file('ONE\nMORE', 'TWO', 'three\nEND'), 'new.py': 'n\n', 'b.bin': '\0new' })
  const patches = omitEachGroup(diff(base, head))
  expect(patches).toHaveLength(6)
  const [withoutFirst = '', withoutSecond = '', , withoutBinary = '', withoutGone = '', withoutNew = ''] = patches
  const rest = { 'new.py': 'n\n', 'b.bin': '\0new' }
  expect(applied(base, withoutFirst)).toBe(treeOf({ ...rest, 'a.py': file('one', 'TWO', 'three\nEND') }))
  expect(applied(base, withoutSecond)).toBe(treeOf({ ...rest, 'a.py': file('ONE\nMORE', 'two', 'three\nEND') }))
  const all = { 'a.py': file('ONE\nMORE', 'TWO', 'three\nEND') }
  expect(applied(base, withoutBinary)).toBe(treeOf({ ...rest, ...all, 'b.bin': '\0old' }))
  expect(applied(base, withoutGone)).toBe(treeOf({ ...rest, ...all, 'gone.py': 'x\n' }))
  expect(applied(base, withoutNew)).toBe(treeOf({ ...all, 'b.bin': '\0new' }))
})

test('creates at most eight groups, and none for a single hunk', () => {
  const names = Array.from({ length: 20 }, (_, n) => `change ${n}`)
  const [base, head] = [
    treeOf({ 'a.py': file(...names) }),
    treeOf({ 'a.py': file(...names.map((name) => `${name}!`)) }),
  ]
  const patches = omitEachGroup(diff(base, head))
  expect(patches).toHaveLength(8)
  expect(patches.map((patch) => patch.match(/^@@/gm)?.length)).toEqual([17, 18, 17, 18, 17, 18, 17, 18])
  expect(omitEachGroup(diff(treeOf({ a: '1\n' }), treeOf({ a: '2\n' })))).toEqual([''])
  expect(omitEachGroup('')).toEqual([])
})

const Lines = fc.array(fc.constantFrom('a', 'b', '', '@@ -1,2 +1,2 @@', 'diff --git a/x b/x', '+++ b/x', '\\ No'), {
  maxLength: 60,
})

test('for any lines, every remaining patch applies', () => {
  fc.assert(
    fc.property(Lines, Lines, (before, after) => {
      const [base, head] = [treeOf({ a: before.join('\n') }), treeOf({ a: after.join('\n') })]
      const patch = diff(base, head)
      for (const each of omitEachGroup(patch)) expect(applied(base, each)).toMatch(/^[0-9a-f]{40}$/)
    }),
    { numRuns: 40 },
  )
})

import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { tarEnd, tarFile } from '../sandboxes/kernel/tar-writer.ts'
import { buildUnifiedDiff, writePatch } from './write-patch.ts'

const PLENTY = { remaining: 1e9 }

/** Applies hunks to a text, independently of the code under test. */
function applied(before: string, hunks: string): string {
  const lines = before.match(/[^\n]*\n|[^\n]+/g) ?? []
  const made: string[] = []
  let at = 0
  for (const hunk of hunks.split(/^(?=@@ )/m).filter((text) => text !== '')) {
    const [, start, count] = /^@@ -(\d+),(\d+) /.exec(hunk) ?? []
    const first = Number(count) === 0 ? Number(start) : Number(start) - 1
    const body = bodyOf(hunk)
    made.push(...lines.slice(at, first), ...body.filter(({ sign }) => sign !== '-').map(({ text }) => text))
    at = first + Number(count)
    expect(body.filter(({ sign }) => sign !== '+').map(({ text }) => text)).toEqual(lines.slice(first, at))
  }
  return [...made, ...lines.slice(at)].join('')
}

function bodyOf(hunk: string): { sign: string; text: string }[] {
  const [, ...lines] = hunk.replaceAll(/\n\\ No newline at end of file\n/g, '\r').match(/[^\n\r]*[\n\r]/g) ?? []
  return lines.map((line) => ({ sign: line[0] ?? '', text: line.slice(1).replace('\r', '') }))
}

const texts = fc
  .array(fc.constantFrom('a\n', 'b\n', 'c\n', '\n', '@@ -1 +1 @@\n', '--- a/x\n', '\\ no\n'), { maxLength: 40 })
  .chain((lines) => fc.constantFrom('', 'end').map((end) => lines.join('') + end))

test('applying a diff to the first text gives the second, also with no effort left', () => {
  fc.assert(
    fc.property(texts, texts, fc.constantFrom(0, 50, 1e6), (before, after, remaining) => {
      expect(applied(before, buildUnifiedDiff(before, after, { remaining }))).toBe(after)
    }),
    { numRuns: 500 },
  )
})

test('git applies the diff', () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-diff-'))
  fc.assert(
    fc.property(texts, texts, (before, after) => {
      const hunks = buildUnifiedDiff(before, after, PLENTY)
      if (hunks === '') return
      writeFileSync(join(folder, 'x'), before)
      const input = `diff --git a/x b/x\n--- a/x\n+++ b/x\n${hunks}`
      execFileSync('git', ['apply', '--whitespace=nowarn', '-'], { cwd: folder, input, stdio: 'pipe' })
      expect(readFileSync(join(folder, 'x'), 'utf8')).toBe(after)
    }),
    { numRuns: 25 },
  )
  rmSync(folder, { recursive: true })
})

test('a diff is minimal, with three lines of context', () => {
  const lines = Array.from({ length: 20 }, (_, n) => `${n}\n`)
  const after = lines.with(4, 'four\n').toSpliced(15, 1)
  expect(buildUnifiedDiff(lines.join(''), after.join(''), PLENTY)).toBe(
    '@@ -2,7 +2,7 @@\n 1\n 2\n 3\n-4\n+four\n 5\n 6\n 7\n@@ -13,7 +13,6 @@\n 12\n 13\n 14\n-15\n 16\n 17\n 18\n',
  )
  expect(buildUnifiedDiff('', 'a', PLENTY)).toBe('@@ -0,0 +1,1 @@\n+a\n\\ No newline at end of file\n')
  expect(buildUnifiedDiff('a\n', '', PLENTY)).toBe('@@ -1,1 +0,0 @@\n-a\n')
  expect(buildUnifiedDiff('a\n', 'a\n', PLENTY)).toBe('')
})

test('texts with nothing in common are replaced completely, in bounded time', () => {
  const text = (word: string) => Array.from({ length: 200_000 }, (_, n) => `${(n * 7919) % 100}${word}\n`).join('')
  const effort = { remaining: 1e7 }
  const hunks = buildUnifiedDiff(text('a'), text('b'), effort)
  expect(hunks.startsWith('@@ -1,200000 +1,200000 @@\n-0a\n')).toBe(true)
  expect(effort.remaining).toBeGreaterThan(-1e6)
  expect(buildUnifiedDiff('a\n', 'b\n', { remaining: -1e6 })).toBe('@@ -1,1 +1,1 @@\n-a\n+b\n')
})

test('a patch names the changes that could not be read in time, and that there may be more', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'assay-late-'))
  const file = join(folder, 'changes.patch')
  const written = async (timeoutMs: number) => {
    const tar = async function* (text: string) {
      yield* [...tarFile('app/a.txt', Buffer.from(text), 0o644), tarEnd()]
      return [] as string[]
    }
    await writePatch({ file, filesMax: 10, timeoutMs }, ['one\n', 'two\n', 'one\n', 'two\n'].map(tar))
    return readFileSync(file, 'latin1')
  }
  expect(await written(60_000)).toContain('diff --git a/a.txt b/a.txt\n')
  expect(await written(-1)).toBe('# Not looked at:\n#   (more)\n')
  rmSync(folder, { recursive: true })
})

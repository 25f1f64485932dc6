import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { findSourceLanguage } from '../../grading/languages/languages.ts'
import type { HiddenTests } from '../../grading/suite.ts'
import { parsePatch } from '../candidates/read-diffs.ts'
import { splitPatch } from '../candidates/split-commit.ts'
import { listSymbolCandidates, scanCode } from './exposed-symbols.ts'

const patchOf = (path: string, added: string, isNew = false): string =>
  [
    `diff --git a/${path} b/${path}`,
    ...(isNew ? ['new file mode 100644', 'index 0000000..1111111', '--- /dev/null'] : [`--- a/${path}`]),
    `+++ b/${path}`,
    '@@ -1,1 +1,9 @@',
    ...(isNew ? [] : [' unchanged = 1', '-gone = 2']),
    ...added.split('\n').map((line) => `+${line}`),
    '',
  ].join('\n')

const testsOf = (path: string, content: string): HiddenTests => ({
  files: [{ path, content, executable: false }],
  deleted: [],
})

const exposedIn = (source: string, hidden: HiddenTests, base = '') => {
  const baseHas = (text: string) => base.split(/[^\w-]+/).includes(text) || base.includes(` ${text} `)
  return listSymbolCandidates({ source, hidden }).filter(({ kind, text }) => kind === 'path' || !baseHas(text))
}

describe('symbols that cannot be guessed', () => {
  test.each([
    [
      'python',
      'src/a.py',
      'def parse_all(text, *, strict=False):\n    return text',
      'tests/test_a.py',
      'from a import parse_all\nassert parse_all("x", strict=True)',
      [
        ['parse_all', 'def parse_all(text, *, strict=False)'],
        ['strict', 'def parse_all(text, *, strict=False)'],
      ],
    ],
    [
      'python over lines',
      'a.py',
      'def join_all(\n    first: str,\n    second: str = "a, b",\n) -> str:\n    return first',
      't/test_a.py',
      'import a\na.join_all("x")',
      [['join_all', 'def join_all( first: str, second: str = "a, b", ) -> str']],
    ],
    [
      'a class',
      'a.py',
      'class RetryPolicy(Base):\n    limit = 3',
      'test_a.py',
      'from a import RetryPolicy',
      [['RetryPolicy', 'class RetryPolicy(Base)']],
    ],
    [
      'javascript',
      'lib/a.js',
      'export const sumAll = (list, start = 0) => {\n  return list\n}',
      'test/a.test.js',
      "import { sumAll } from '../lib/a.js'",
      [['sumAll', 'export const sumAll = (list, start = 0)']],
    ],
    [
      'a constant, without its value',
      'lib/a.js',
      'export const RETRY_CAP = 17 * 3',
      'test/a.test.js',
      "import { RETRY_CAP } from '../lib/a.js'",
      [['RETRY_CAP', 'export const RETRY_CAP']],
    ],
    [
      'a method',
      'lib/a.ts',
      '  async flushAll(now: number): Promise<void> {\n    go()',
      'test/a.test.ts',
      'await it.flushAll(3)',
      [['flushAll', 'async flushAll(now: number): Promise<void>']],
    ],
    [
      'go',
      'a.go',
      'func (s *Store) FlushAll(ctx context.Context) error {\n\treturn nil',
      'a_test.go',
      'err := s.FlushAll(ctx)',
      [['FlushAll', 'func (s *Store) FlushAll(ctx context.Context) error']],
    ],
    [
      'rust',
      'src/a.rs',
      "pub fn split_at_mark<'a>(text: &'a str) -> (&'a str, &'a str) {\n    x",
      'tests/a.rs',
      'let (one, other) = split_at_mark("a");',
      [['split_at_mark', "pub fn split_at_mark<'a>(text: &'a str) -> (&'a str, &'a str)"]],
    ],
    [
      'java',
      'src/A.java',
      '  public static int accumulateAll(List<Integer> each) {\n    return 0;',
      'src/test/ATest.java',
      'assertEquals(3, A.accumulateAll(list));',
      [['accumulateAll', 'public static int accumulateAll(List<Integer> each)']],
    ],
    [
      'ruby',
      'lib/a.rb',
      'def shorten!(text)\n  text',
      'spec/a_spec.rb',
      'expect(shorten!("x"))',
      [['shorten', 'def shorten!(text)']],
    ],
    [
      'a field that tests name in a string',
      'a.py',
      'self.retry_count = 3',
      'test_a.py',
      'assert data["retry_count"] == 3',
      [['retry_count', null]],
    ],
  ])('in %s', (_name, path, added, testPath, text, names) => {
    const found = exposedIn(patchOf(path, added), testsOf(testPath, text), ' list now text each other first go ctx ')
    expect(found.filter(({ kind }) => kind === 'name').map(({ text: name, signature }) => [name, signature])).toEqual(
      names,
    )
  })

  test('does not expose names of the base tree and matches whole names only', () => {
    const [source, hidden] = [
      patchOf('a.py', 'def retry(): pass\ndef known(): pass'),
      testsOf('t.py', 'a.retry(); a.known()'),
    ]
    expect(exposedIn(source, hidden, 'known retry_count').map(({ text }) => text)).toEqual(['retry'])
  })

  test('omits names that tests define themselves', () => {
    const source = patchOf('a.py', 'payload = read()\nreturn payload')
    expect(exposedIn(source, testsOf('t.py', 'payload = {}\nassert go(payload)'))).toEqual([])
    expect(exposedIn(source, testsOf('t.py', 'payload = {}\nassert a.payload')).map(({ text }) => text)).toEqual([
      'payload',
    ])
  })

  test('treats a name that is also a string as a name', () => {
    const source = patchOf('a.js', "export const E_BROKEN = make('E_BROKEN')")
    expect(exposedIn(source, testsOf('a.test.js', "import { E_BROKEN } from 'a'\nis(e.code, 'E_BROKEN')"))).toEqual([
      { kind: 'name', text: 'E_BROKEN', signature: 'export const E_BROKEN' },
    ])
  })

  test('ignores comments and documentation', () => {
    const source = patchOf('a.py', '# idempotent\n"""Flushes idempotent things."""\nx = 1')
    expect(exposedIn(source, testsOf('t.py', '# idempotent\nassert idempotent'))).toEqual([])
  })

  test('exposes exact strings and the fixed parts of interpolated strings', () => {
    const source = patchOf('a.py', 'raise E(f"cannot parse {value!r}: too short")\nkind = "dry-run"\nlog("other text")')
    const hidden = testsOf('t.py', 'assert str(e) == "cannot parse \'x\': too short"\nrun("dry-run")')
    expect(exposedIn(source, hidden)).toEqual(
      [': too short', 'cannot parse', 'dry-run'].map((text) => ({ kind: 'literal', text, signature: null })),
    )
  })

  test.each([
    ['pkg/deep/mod.py', 'from pkg.deep.mod import x', true],
    ['pkg/fresh/__init__.py', 'import pkg.fresh', true],
    ['lib/fresh.js', "const x = require('../lib/fresh')", true],
    ['lib/fresh.js', "const x = require('../lib/refresh')", false],
    ['lib/fresh.js', "say('fresh')", false],
    ['include/acme/span.hpp', '#include "acme/span.hpp"', true],
  ])('exposes the new file %s if loaded by %j: %s', (path, text, isExposed) => {
    const found = exposedIn(patchOf(path, 'x', true), testsOf('test/a.test.js', text))
    expect(found.filter(({ kind }) => kind === 'path').map((each) => each.text)).toEqual(isExposed ? [path] : [])
  })

  test('reads a patch as UTF-8', () => {
    const latin1 = (text: string) => Buffer.from(text).toString('latin1')
    const source = latin1(patchOf('a.py', 'x = "größer als"'))
    expect(exposedIn(source, testsOf('t.py', latin1('assert x == "größer als"')))[0]?.text).toBe('größer als')
  })
})

const line = fc.string({ unit: fc.constantFrom(...'ab \'"`#/+-@{}()=\\\n$'.split('')), maxLength: 200 })

test('scans any text to its end', () => {
  fc.assert(
    fc.property(line, line, fc.constantFrom('a.py', 'a.js', 'a.rs', 'a.php', 'a.sql', 'a'), (added, text, path) => {
      const found = exposedIn(patchOf(path, added), testsOf(path, text))
      for (const { text: exposed } of found) expect(`${added}\n${text}`).toContain(exposed)
    }),
  )
})

test('returns plain strings unchanged', () => {
  const texts = fc.array(fc.stringMatching(/^[\w ,.:-]{1,20}$/), { maxLength: 8 })
  fc.assert(
    fc.property(texts, (given) => {
      const code = given.map((text, at) => `name_${at} = "${text}"  # a "comment"`).join('\n')
      expect(scanCode(code, findSourceLanguage('a.py')).literals).toEqual(given)
    }),
  )
})

test('returns exactly the added lines of a patch', () => {
  const lines = fc.array(fc.stringMatching(/^[ -~]{0,30}$/), { minLength: 1, maxLength: 10 })
  fc.assert(
    fc.property(lines, (added) => {
      const [file] = parsePatch(patchOf('a b.py', added.join('\n')))
      expect(file).toEqual({ path: 'a b.py', isNew: false, blocks: [added.join('\n')] })
    }),
  )
})

test('scans large changes and tests quickly', async () => {
  const text = (count: number, word: (n: number) => string) =>
    Array.from({ length: count }, (_, n) => word(n)).join(' ')
  const source = patchOf(
    'a.py',
    text(12_000, (n) => `def n${n}abc(): return "text ${n} of it"`),
  )
  const hidden = testsOf(
    'tests/test_a.py',
    text(200_000, (n) => `n${n}abc "text ${n} of tests"`),
  )
  expect(await cpuMs(() => exposedIn(source, hidden))).toBeLessThan(5000)
})

test.each(['a.ts', 'a.php'])('scans block comments of %s that are not closed in linear time', async (path) => {
  const language = findSourceLanguage(path)
  const text = '/* '.repeat(350_000)
  expect(await cpuMs(() => scanCode(text, language))).toBeLessThan(2000)
  expect(scanCode(`${text}*/ after`, language).code).toContain('after')
})

test('a carriage return in a changed line does not begin another file of the patch', () => {
  const source = patchOf(
    'a.py',
    'first = 1\rdiff --git a/tests/b.py b/tests/b.py\nhidden_name = 2\r@@ -1 +1 @@\nlast = 3',
  )
  expect(parsePatch(source)).toMatchObject([
    { path: 'a.py', blocks: [expect.stringMatching(/^first = 1.*\nhidden_name = 2.*\nlast = 3$/)] },
  ])
  expect(splitPatch(source)).toEqual({ source, test: '', rest: '' })
})

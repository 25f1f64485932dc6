import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type HistoryCommit, writeHistory } from '../../../test/support/histories.ts'
import { scanClone } from './scan-clone.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-reduced-'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const tests = (name: string) => `def test_${name}():\n    assert ${name}() == 1\n    assert ${name}(2) == 2\n`
const PYTHON = { 'src/app.py': 'import b\nimport a\n\n\ndef one():\n    b.go()\n    a.go()\n    return 1\n' }
const FIX = { 'src/app.py': `${PYTHON['src/app.py']}\n\ndef two():\n    return 2\n`, 'tests/test_app.py': tests('two') }

/** Pull requests of public repositories, reduced to what decides about them, with their verdicts. */
const CASES: [origin: string, verdict: string, base: Record<string, string>, change: HistoryCommit][] = [
  [
    'flask 4055, fastify 3285, cobra 174: lines of code move',
    'easy',
    PYTHON,
    {
      message: 'Go to a first (#1)',
      files: {
        'src/app.py': 'import b\nimport a\n\n\ndef one():\n    a.go()\n    b.go()\n    return 1\n',
        'tests/test_app.py': tests('one'),
      },
    },
  ],
  [
    'white space and comments change',
    'cosmetic',
    PYTHON,
    {
      message: 'Tidy up (#1)',
      files: {
        'src/app.py': PYTHON['src/app.py'].replace('return 1', 'return  1').replace('def', '# The first.\ndef'),
        'tests/test_app.py': tests('one'),
      },
    },
  ],
  [
    'cobra: a package is called doc, and its commits begin with it',
    'easy',
    { 'doc/man.go': 'package doc\n\nfunc Man() int {\n\treturn 1\n}\n' },
    {
      message: 'doc: fix the date of man pages (#1)',
      files: {
        'doc/man.go': 'package doc\n\nfunc Man() int {\n\treturn 2\n}\n',
        'doc/man_test.go': 'package doc\n\nfunc TestMan(t *testing.T) {\n\tif Man() != 2 {\n\t\tt.Fatal()\n\t}\n}\n',
      },
    },
  ],
  [
    'zod 5440: a symbolic link of the documentation changes too',
    'easy',
    PYTHON,
    { message: 'Add two (#1)', files: { ...FIX, 'docs/README.md': '../README.md' }, links: ['docs/README.md'] },
  ],
  [
    'flask 4720, httpx 1855: a picture of the documentation changes too',
    'easy',
    PYTHON,
    { message: 'Add two (#1)', files: { ...FIX, 'docs/_static/logo.png': '\0PNG', 'artwork/logo.svgz': '\0' } },
  ],
  [
    'a symbolic link beside the source',
    'symlink',
    PYTHON,
    { message: 'Add two (#1)', files: { ...FIX, 'src/data': '../data' }, links: ['src/data'] },
  ],
  [
    'a fix of one line',
    'easy',
    PYTHON,
    {
      message: 'Return two (#1)',
      files: { 'src/app.py': PYTHON['src/app.py'].replace('return 1', 'return 2'), 'tests/test_app.py': tests('one') },
    },
  ],
  [
    'a fix that adds one line',
    'easy',
    PYTHON,
    {
      message: 'Go to b twice (#1)',
      files: {
        'src/app.py': PYTHON['src/app.py'].replace('    return', '    b.go()\n    return'),
        'tests/test_app.py': tests('one'),
      },
    },
  ],
  [
    'flask: merged up from a maintenance branch',
    'easy',
    PYTHON,
    { message: "Merge branch '3.1.x'", isMerge: true, branchMessage: 'Add two (#1)', files: FIX },
  ],
  [
    'flask 2879: the merge commit has no number sign',
    'easy',
    PYTHON,
    { message: 'Merge pull request 1 from ada/two\n\nAdd two', isMerge: true, files: FIX },
  ],
  [
    'express: squashed by hand, and closed by its message',
    'easy',
    PYTHON,
    { message: 'Add two\n\ncloses #1\n', files: FIX },
  ],
  [
    'zod 5913: only a type checker sees the assertions',
    'no_tests',
    { 'src/app.ts': 'export const one = 1\n' },
    {
      message: 'Infer two (#1)',
      files: {
        'src/app.ts': 'export const one = 1\nexport type Two = 2\nexport const two: Two = 2\n',
        'tests/app.test.ts':
          "import { expectTypeOf, test } from 'vitest'\ntest('two', () => {\n  const value = two\n  expectTypeOf(value).toEqualTypeOf<2>()\n})\n",
      },
    },
  ],
]

test.each(CASES)('%s: %s', async (origin, verdict, base, change) => {
  const folder = join(root, origin.replaceAll(/\W+/g, '-'))
  await writeHistory(folder, [{ message: 'start', files: base }, change])
  const signal = new AbortController().signal
  const { funnel } = await scanClone(folder, { signal, now: new Date('2026-06-01') })
  const rejections = Object.fromEntries(funnel.rejections.map(({ reason, count }) => [reason, count]))
  const found = Object.fromEntries(Object.entries({ ...funnel.candidates, ...rejections }).filter(([, n]) => n > 0))
  expect(found).toEqual({ [verdict]: 1 })
})

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { environment } from '../../../test/support/histories.ts'
import { listVariants } from './solution-variants.ts'

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

const FILLER = Array.from({ length: 12 }, (_, n) => `same(${n})`)
const file = (...changes: string[]): string => [...changes.flatMap((change) => [change, ...FILLER]), ''].join('\n')

const ALL = { parts: 100, mutants: 100 }
const partsOf = (patch: string) => listVariants(patch, ALL).filter(({ kind }) => kind === 'part')

test('omits each hunk of a diff without context and keeps the rest', () => {
  const base = treeOf({ 'a.py': file('one()', 'two()\nsame(0)\nthree()'), 'gone.py': 'x()\n' })
  const head = treeOf({ 'a.py': file('ONE()\nMORE()', 'TWO()\nsame(0)\nTHREE()'), 'new.py': 'n()\n' })
  const parts = partsOf(diff(base, head))
  expect(parts.map(({ path, line, before, after }) => [path, line, before, after])).toEqual([
    ['a.py', 1, 'ONE()\nMORE()', 'one()'],
    ['a.py', 15, 'TWO()', 'two()'],
    ['a.py', 17, 'THREE()', 'three()'],
    ['gone.py', 0, '', 'x()'],
    ['new.py', 1, 'n()', ''],
  ])
  const landed = { 'a.py': file('ONE()\nMORE()', 'TWO()\nsame(0)\nTHREE()'), 'new.py': 'n()\n' }
  const trees = [
    { ...landed, 'a.py': file('one()', 'TWO()\nsame(0)\nTHREE()') },
    { ...landed, 'a.py': file('ONE()\nMORE()', 'two()\nsame(0)\nTHREE()') },
    { ...landed, 'a.py': file('ONE()\nMORE()', 'TWO()\nsame(0)\nthree()') },
    { ...landed, 'gone.py': 'x()\n' },
    { 'a.py': landed['a.py'] },
  ]
  expect(parts.map(({ patch }) => applied(base, patch))).toEqual(trees.map(treeOf))
})

const DOCUMENTED = (
  types: string,
  text: string,
  check: string,
): string => `${file('def edit(')}    filename: ${types} = None,
    *names: ${types},
    key=lambda name: name,
) -> list[${types}]:
    """Edits a file.

    One line.
    Another line.
    A third line.
    ${text}
    The fifth line.
    The sixth line.
    The last line.
    """
    one = 1
    if ${check}:
        return filename
`

test('types and documentation of Python are not parts, and the code after them is', () => {
  const patch = diff(
    treeOf({ 'a.py': DOCUMENTED('str | None', 'Give it a name, not a path.', 'isinstance(filename, str)') }),
    treeOf({
      'a.py': DOCUMENTED(
        'str\n    | os.PathLike[str]\n    | None',
        'Give it a name\n    or a path.\n\n    .. versionchanged:: 8.5.0',
        'isinstance(filename, (str, os.PathLike))',
      ),
    }),
  )
  expect(partsOf(patch).map(({ before }) => before)).toEqual(['    if isinstance(filename, (str, os.PathLike)):'])
})

test.each([
  ['def f(a: int, b: str = "x") -> int:', 'def f(a: str, b: list[str] = "x") -> dict[str, int]:', 0],
  ['def f(a: int) -> int:', 'def f(a: int = 1) -> int:', 1],
  ['def f(a: int) -> int:', 'def f(b: int) -> int:', 1],
  ['def f(a=lambda x: x) -> int:', 'def f(a=lambda x: x + 1) -> int:', 1],
  ['async def f(\n    a: dict[str, int],\n):', 'async def f(\n    a: dict[str, list[int]],\n):', 0],
  ['x: int = 1', 'x: int = 2', 1],
  ['values[a:b] = c', 'values[a:c] = c', 1],
])('the type of a parameter is no behaviour: %j, %j', (before, after, parts) => {
  const patch = diff(treeOf({ 'a.py': file(before) }), treeOf({ 'a.py': file(after) }))
  expect(partsOf(patch)).toHaveLength(parts)
})

test('spreads the variants evenly and depends on the patch alone', () => {
  const names = Array.from({ length: 20 }, (_, n) => `change(${n})`)
  const patch = diff(
    treeOf({ 'a.py': file(...names) }),
    treeOf({ 'a.py': file(...names.map((name) => `new_${name}`)) }),
  )
  const variants = listVariants(patch, { parts: 5, mutants: 2 })
  expect(variants.map(({ kind, before }) => [kind, before])).toEqual([
    ...[0, 4, 8, 12, 16].map((n) => ['part', `new_change(${n})`]),
    ...[0, 10].map((n) => ['mutant', `new_change(${n})`]),
  ])
  expect(listVariants(patch, { parts: 5, mutants: 2 })).toEqual(variants)
  expect(listVariants('', ALL)).toEqual([])
})

test.each([
  ['a comment', 'a.py', 'f()\n', 'f()  # why\n'],
  [
    'a documentation string',
    'a.py',
    'def f():\n    """One.\n    """\n',
    'def f():\n    """One.\n\n    It has more.\n    """\n',
  ],
  ['an import', 'a.ts', 'f()\n', "import { f } from './f.js'\nf()\n"],
  ['a message of a log', 'a.go', 'f()\n', 'log.Printf("called %d", 1)\nf()\n'],
  ['white space', 'a.ts', 'f()\n', 'f( )\n'],
])('%s is no part of the behaviour', (_, path, before, after) => {
  expect(listVariants(diff(treeOf({ [path]: before }), treeOf({ [path]: after })), ALL)).toEqual([])
})

test.each<[string, string, string, [before: string, after: string][]]>([
  [
    'a.py',
    'def f(x):\n',
    'def f(x):\n    if x <= 3:\n        return "a < 1"\n    return x[1:]\n',
    [
      ['        return "a < 1"', '        pass'],
      ['    if x <= 3:', '    if x < 3:'],
      ['        return "a < 1"', '        return None'],
      ['    return x[1:]', '    return x[2:]'],
    ],
  ],
  [
    'a.ts',
    'f()\n',
    'if (x === y) {\n  g(1)\n}\nif (x) throw new Error()\nreturn { a: 1 }\nf()\n',
    [
      ['  g(1)', ''],
      ['if (x === y) {', 'if (x !== y) {'],
      ['  g(1)', '  g(2)'],
      ['if (x) throw new Error()', 'if (!(x)) throw new Error()'],
      ['return { a: 1 }', 'return { a: 2 }'],
    ],
  ],
  [
    'a.go',
    'f()\n',
    'if err := g(); err != nil {\n\treturn 0, fmt.Errorf("no: %w", err)\n}\nok := true\nf()\n',
    [
      ['\treturn 0, fmt.Errorf("no: %w", err)', ''],
      ['if err := g(); err != nil {', 'if err := g(); err == nil {'],
      ['ok := true', 'ok := false'],
    ],
  ],
])('alters lines of %s', (path, before, after, expected) => {
  const [base, head] = [treeOf({ [path]: before }), treeOf({ [path]: after })]
  const mutants = listVariants(diff(base, head), ALL).filter(({ kind }) => kind === 'mutant')
  expect(mutants.map((each) => [each.before, each.after])).toEqual(expected)
  for (const { patch, ...each } of mutants)
    expect(applied(base, patch)).toBe(
      treeOf({ [path]: after.replace(`${each.before}\n`, each.after && `${each.after}\n`) }),
    )
})

const Lines = fc.array(
  fc.constantFrom('a = 1', 'if b < 2:', '', '@@ -1,2 +1,2 @@', 'diff --git a/x b/x', '+++ b/x', '\\ No'),
  { maxLength: 60 },
)

test('for any lines, every variant applies', () => {
  fc.assert(
    fc.property(Lines, Lines, (before, after) => {
      const [base, head] = [treeOf({ 'a.py': before.join('\n') }), treeOf({ 'a.py': after.join('\n') })]
      for (const { patch } of listVariants(diff(base, head), { parts: 6, mutants: 6 }))
        expect(applied(base, patch)).toMatch(/^[0-9a-f]{40}$/)
    }),
    { numRuns: 40 },
  )
})

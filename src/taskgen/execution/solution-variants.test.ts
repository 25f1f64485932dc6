import fc from 'fast-check'
import { afterAll, expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { openTreeDiffs } from '../../../test/support/taskgen/tree-diffs.ts'
import { listVariants } from './solution-variants.ts'
import { rejectWeakTests, summariseVariants } from './try-variants.ts'

const trees = openTreeDiffs()
afterAll(() => trees[Symbol.dispose]())
const { treeOf, diff, applied } = trees

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
  const expected = [
    { ...landed, 'a.py': file('one()', 'TWO()\nsame(0)\nTHREE()') },
    { ...landed, 'a.py': file('ONE()\nMORE()', 'two()\nsame(0)\nTHREE()') },
    { ...landed, 'a.py': file('ONE()\nMORE()', 'TWO()\nsame(0)\nthree()') },
    { ...landed, 'gone.py': 'x()\n' },
    { 'a.py': landed['a.py'] },
  ]
  expect(parts.map(({ patch }) => applied(base, patch))).toEqual(expected.map(treeOf))
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

const JAVADOC = (text: string, check: string): string => `/**
 * Gets a value.
 *
 * The first line.
 * The second line.
 * ${text}
 * The fourth line.
 * The fifth line.
 * The last line.
 */
public Object get() {
    a();
    b();
    c();
    if (${check}) {
        return null;
    }
}
`

test.each(['A.java', 'a.php', 'a.ts', 'a.go'])(
  'lines of a block comment that begins above the hunk are not parts, and the code after it is: %s',
  (path) => {
    const before = treeOf({ [path]: JAVADOC('It is null.', 'x > 1') })
    const after = treeOf({ [path]: JAVADOC('It may be null.\n *\n * @see Other', 'x > 2') })
    expect(partsOf(diff(before, after)).map((part) => part.before)).toEqual(['    if (x > 2) {'])
  },
)

test.each([
  ['A.java', '@Deprecated'],
  ['A.java', '@SuppressWarnings("unchecked")'],
  ['a.rs', '#[must_use]'],
])('an annotation that changes no behaviour is no part: %s, %s', (path, line) => {
  expect(partsOf(diff(treeOf({ [path]: file('f();') }), treeOf({ [path]: file(`${line}\nf();`) })))).toEqual([])
})

test.each([
  [
    'a member of a type',
    'export type A = {\n  one: string;\n};',
    'export type A = {\n  one: string;\n  two?: number;\n};',
    0,
  ],
  [
    'a member without a semicolon',
    'interface A {\n  one: string\n}',
    'interface A {\n  one: (name: string) => R\n}',
    0,
  ],
  ['a union', 'type A =\n  | B\n  | C\nf()', 'type A =\n  | B\nf()', 0],
  ['a conditional type', 'type W<S> = S extends { a: infer T }\n  ? X<T>\n  : never', 'type W<S> = X<S>', 0],
  ['code after a type', 'type A = B\nconst a = f(1)', 'type A = B\nconst a = f(2)', 1],
  ['a type argument', 'const a = f<A>(b)', 'const a = f<A, C<D>>(b)', 0],
  ['a comparison', 'if (a < b && c > d) f()', 'if (a < c && c > d) f()', 1],
  ['the type of a variable', 'const a: A<B> = b()', 'const a: C = b()', 0],
  ['the value of a variable', 'const a: A = b()', 'const a: A = c()', 1],
  [
    'the type of a parameter',
    'function f(a: A, b = 1): void {',
    'function f(a: C | { d: 1 }, b = 1): Promise<void> {',
    0,
  ],
  ['a new parameter', 'function f(a: A): void {', 'function f(a: A, b: B): void {', 1],
  ['an assertion', 'f((a as A).b, c)', 'f((a as B<C>).b, c)', 0],
  ['a ternary', 'f(a ? b : c)', 'f(a ? b : d)', 1],
  ['a property', 'f({ a: b })', 'f({ a: c })', 1],
  ['a property on a line', '  a: b,', '  a: c,', 1],
  ['the type of a callback', 'const f = (a: A) => g(a)', 'const f = (a: (b: B) => C) => g(a)', 0],
  ['the body of a callback', 'const f = (a: A) => g(a)', 'const f = (a: A) => h(a)', 1],
])('types of TypeScript are not parts: %s', (_, before, after, parts) => {
  const patch = diff(treeOf({ 'a.ts': file(before) }), treeOf({ 'a.ts': file(after) }))
  expect(partsOf(patch)).toHaveLength(parts)
})

test('whole files as context show that a line belongs to a type which begins far above', () => {
  const members = (last: string) => `type A = {\n${'  one: {\n    two: string\n  }\n'.repeat(10)}  ${last}\n}\nf()\n`
  const [base, head] = [treeOf({ 'a.ts': members('three: 1') }), treeOf({ 'a.ts': members('three: 2') })]
  const wide = diff(base, head, 1000)
  expect(partsOf(wide)).toEqual([])
  const [part] = partsOf(diff(treeOf({ 'a.ts': file('f(1)') }), treeOf({ 'a.ts': file('f(2)') }), 1000))
  expect(applied(treeOf({ 'a.ts': file('f(1)') }), part?.patch ?? '')).toBe(treeOf({ 'a.ts': file('f(1)') }))
})

const variantsOf = (before: Record<string, string>, after: Record<string, string>) =>
  listVariants(diff(treeOf(before), treeOf(after), 1000), ALL)

test.each(['a.pyi', 'a.d.ts', 'a.d.mts'])('attrs 1461: declarations of types in %s are no parts', (path) => {
  expect(variantsOf({ [path]: 'x: A\ny: B\n' }, { [path]: 'x: A\ny: C\n' })).toEqual([])
})

test.each([
  ['markup in documentation on one line', '"""Filters for ``|``."""\n'],
  ['markup in a comment', '# Filters for ``|``.\n'],
  ['other quotes in documentation', 'def g():\n    """Splits at \'\'\'.\n\n    The text stays.\n    """\n'],
])('jinja 1564: %s does not hide the code after it', (_, start) => {
  const code = (body: string) => `${start}\n\ndef f(x):\n    """Returns\n\n    A value.\n    """\n${body}    return x\n`
  const variants = variantsOf({ 'a.py': code('') }, { 'a.py': code('    if x < 3:\n        return None\n') })
  expect(variants.map(({ kind }) => kind)).toEqual(['part', 'mutant', 'mutant'])
})

test.each([
  ['SQL = """\n', '\n"""\n'],
  ['pattern = compile(\n    r"""\n', '\n    """,\n    VERBOSE,\n)\n'],
])('jinja 1171: a multi-line string that is a value is a part, and is not altered: %j', (start, end) => {
  const text = (digits: string) => `def f():\n    """Reads.\n\n    A number.\n    """\n${start}${digits}${end}f()\n`
  const variants = variantsOf({ 'a.py': text('[0-7]') }, { 'a.py': text('[0-9] 1') })
  expect(variants.map(({ kind, before }) => [kind, before])).toEqual([['part', '[0-9] 1']])
})

test('ufo 287: lines of documentation are not altered', () => {
  const code = (text: string) => `function g() {\n  h()\n}\n${text}`
  const added = `
/**
 * @example
 * filterQuery("/foo?bar=1", (key) => key !== "bar"); // "/foo"
 */
export function filterQuery(input: string): string {
  if (!input.includes("?")) {
    return input;
  }
  return filter(input);
}
`
  const mutants = variantsOf({ 'a.ts': code('') }, { 'a.ts': code(added) }).filter(({ kind }) => kind === 'mutant')
  expect(mutants.length).toBeGreaterThan(0)
  expect(mutants.filter(({ before }) => before.includes(' * '))).toEqual([])
})

test.each(['f(a: ', 'a<b', 'type A = ', 'x ? '])('reads types of %j in linear time', async (piece) => {
  const patch = (text: string) => diff(treeOf({ 'a.ts': 'f()\n' }), treeOf({ 'a.ts': `f()\n${text}\n` }))
  const patches = [patch(piece.repeat(400_000 / piece.length)), patch(`${piece}\n`.repeat(20_000))]
  expect(await cpuMs(() => patches.map((each) => listVariants(each, ALL)))).toBeLessThan(2000)
})

test('derives variants of a large change without rendering all of them', async () => {
  const line = (n: number, value: string) => `a${n} = ${value}\n${`# ${'x'.repeat(78)}\n`.repeat(80)}`
  const files = (value: string) =>
    treeOf(
      Object.fromEntries(
        Array.from({ length: 8 }, (_, f) => [
          `f${f}.py`,
          Array.from({ length: 120 }, (_, n) => line(n, value)).join(''),
        ]),
      ),
    )
  const patch = diff(files('1'), files('2 if b == 3 else 4'), 100_000)
  expect(patch.length).toBeGreaterThan(6_000_000)
  const before = process.memoryUsage().heapUsed
  expect(await cpuMs(() => listVariants(patch, { parts: 2, mutants: 2 }))).toBeLessThan(8000)
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(500_000_000)
})

test('reads the parameters of a long Python definition in linear time', async () => {
  const before = treeOf({ 'a.py': 'f()\n' })
  const after = treeOf({ 'a.py': `f()\ndef f(${'a:b=1 '.repeat(60_000)}):\n` })
  const patch = diff(before, after)
  expect(await cpuMs(() => listVariants(patch, ALL))).toBeLessThan(2000)
})

test('a carriage return in a line does not begin another hunk', () => {
  const [base, head] = ['1', '2'].map((value) =>
    treeOf({ 'a.py': file(`a = ${value}\r@@ -1,1 +1,1 @@`, `b = ${value}`) }),
  )
  const parts = partsOf(diff(base ?? '', head ?? ''))
  expect(parts).toHaveLength(2)
  for (const { patch } of parts) expect(applied(base ?? '', patch)).not.toBe(base)
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

const survivor = (before: string) => ({ before, isPassed: true })
const needed = (before: string) => ({ before, isPassed: false })

test.each([
  [
    'a removal that no test notices, beside one needed and one untested part',
    [needed('z()'), survivor(''), survivor('if x:')],
    undefined,
  ],
  ['two untested parts beside one needed part', [needed('z()'), survivor('y()'), survivor('if x:')], 'weak_tests'],
  ['removals that no test notices, and nothing that is needed', [survivor(''), survivor('y()')], 'weak_tests'],
])('judges %s', (_, outcomes, reason) => {
  const tried = outcomes.map(({ before, isPassed }, edit) => ({
    variant: { kind: 'part' as const, path: 'a.py', line: 1, before, after: 'x = None', edit, patch: '' },
    isPassed,
  }))
  expect(rejectWeakTests({ ...summariseVariants(tried), runs: 0, cpuSeconds: 0 })?.reason).toBe(reason)
})

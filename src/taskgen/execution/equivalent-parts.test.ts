// Parts of a fix that mean the same as the code before them. Named cases are reduced pull requests of public projects.
import { afterAll, expect, test } from 'vitest'
import { cpuMs } from '../../../test/support/cpu-time.ts'
import { openTreeDiffs } from '../../../test/support/taskgen/tree-diffs.ts'
import { listVariants } from './solution-variants.ts'
import { rejectWeakTests, summariseVariants } from './try-variants.ts'

const trees = openTreeDiffs()
afterAll(() => trees[Symbol.dispose]())

const LIMITS = { parts: 8, mutants: 8 }
const WHOLE_FILES = 10_000

const variantsOf = (before: Record<string, string>, after: Record<string, string>, limits = LIMITS) =>
  listVariants(trees.diff(trees.treeOf(before), trees.treeOf(after), WHOLE_FILES), limits)
const partsOf = (before: Record<string, string>, after: Record<string, string>) =>
  variantsOf(before, after).filter(({ kind }) => kind === 'part')

const COMPLETIONS = (type: string, describe: (name: string, text: string) => string, added: string) => `package cobra

${added}// NoFileCompletions can be used to disable file completion.
func NoFileCompletions(cmd *Command, args []string) ([]${type}, Directive) {
	return nil, DirectiveNoFileComp
}

func FixedCompletions(choices []${type}, directive Directive) CompletionFunc {
	return func(cmd *Command, args []string) ([]${type}, Directive) {
		return choices, directive
	}
}

func getFlagNameCompletions(flag *pflag.Flag, toComplete string) []${type} {
	if nonCompletableFlag(flag) {
		return []${type}{}
	}

	var completions []${type}
	flagName := "--" + flag.Name
	if strings.HasPrefix(flagName, toComplete) {
		completions = append(completions, ${describe('flagName', 'flag.Usage')})
	}
	for _, sub := range cmd.Commands() {
		completions = append(completions, ${describe('sub.Name()', 'sub.Short')})
	}
	return completions
}
`
const WITH_DESC = (type: string, body: string) => `// Completion is a string that can be used for completions
type Completion ${type}

// CompletionWithDesc returns a [Completion] with a description.
func CompletionWithDesc(choice string, description string) Completion {
	return ${body}
}

`
const SPRINTF = (name: string, text: string) => `fmt.Sprintf("%s\\t%s", ${name}, ${text})`
const CALL = (name: string, text: string) => `CompletionWithDesc(${name}, ${text})`

test('cobra 2231: another name for a type, and calls of a new function for what was written out, are no parts', () => {
  const before = {
    'completions.go': COMPLETIONS('string', SPRINTF, ''),
    'active_help.go':
      'package cobra\n\nfunc Append(all []string, one string) []string {\n\treturn append(all, one)\n}\n',
  }
  const after = {
    'completions.go': COMPLETIONS('Completion', CALL, WITH_DESC('= string', 'choice + "\\t" + description')),
    'active_help.go':
      'package cobra\n\nfunc Append(all []Completion, one string) []Completion {\n\treturn append(all, one)\n}\n',
  }
  expect(partsOf(before, after).map((part) => part.before)).toEqual([
    expect.stringContaining('func CompletionWithDesc(choice string, description string) Completion {'),
  ])
})

test.each<[string, string, string]>([
  ['has another separator', '= string', 'choice + " " + description'],
  ['uses its parameters in another order', '= string', 'description + "\\t" + choice'],
  ['drops a parameter', '= string', 'choice + "\\t"'],
  ['is written in another way that we cannot compare', '= string', 'join("\\t", choice, description)'],
])('a new function that %s does not mean the same as what was written out', (_, type, body) => {
  const before = { 'completions.go': COMPLETIONS('string', SPRINTF, '') }
  const after = { 'completions.go': COMPLETIONS('Completion', CALL, WITH_DESC(type, body)) }
  expect(partsOf(before, after)).toHaveLength(3)
})

test('a type of its own is no other name for a type', () => {
  const before = { 'completions.go': COMPLETIONS('string', SPRINTF, '') }
  const after = { 'completions.go': COMPLETIONS('Completion', SPRINTF, 'type Completion string\n\n') }
  expect(partsOf(before, after).length).toBeGreaterThan(3)
})

const COMMAND = (
  name: string,
  { use, line, added, shown }: { use: string; line: string; added: string; shown: string },
) => `package cobra

func (c *Command) InitDefaultHelpFlag() {
	usage := "help for "
	usage += ${shown}
	c.Flags().BoolP("help", "h", false, usage)
}

${added}func (c *Command) UseLine() string {
	var useline string
${use}	if c.HasParent() {
		useline = c.parent.CommandPath() + " " + ${line}
	} else {
		useline = ${line}
	}
	return useline
}

func (c *Command) Flags() *flag.FlagSet {
	if c.flags == nil {
		c.flags = flag.NewFlagSet(${name}, flag.ContinueOnError)
	}
	return c.flags
}

func (c *Command) LocalNonPersistentFlags() *flag.FlagSet {
	out := flag.NewFlagSet(${name}, flag.ContinueOnError)
	return out
}

func (c *Command) ResetFlags() {
	c.flagErrorBuf = new(bytes.Buffer)
	c.flags = flag.NewFlagSet(${name}, flag.ContinueOnError)
	c.flags.SetOutput(c.flagErrorBuf)
	c.pflags = flag.NewFlagSet(${name}, flag.ContinueOnError)
	c.pflags.SetOutput(c.flagErrorBuf)
	c.lflags = nil
	c.iflags = flag.NewFlagSet(${name}, flag.ContinueOnError)
	c.iflags.SetOutput(c.flagErrorBuf)
	c.parentsPflags = flag.NewFlagSet(${name}, flag.ContinueOnError)
}
`
const PLUGIN = {
  before: { 'command.go': COMMAND('c.Name()', { use: '', line: 'c.Use', added: '', shown: 'c.Name()' }) },
  after: {
    'command.go': COMMAND('c.displayName()', {
      use: '\tuse := strings.Replace(c.Use, c.Name(), c.displayName(), 1)\n',
      line: 'use',
      shown: 'c.displayName()',
      added:
        'func (c *Command) displayName() string {\n\tif name, ok := c.Annotations[DisplayName]; ok {\n\t\treturn name\n\t}\n\treturn c.Name()\n}\n\n',
    }),
  },
}

test('cobra 2070: the same replacement in many places counts as one part', () => {
  const parts = partsOf(PLUGIN.before, PLUGIN.after)
  expect(new Set(parts.map(({ edit }) => edit)).size).toBe(6)
  expect(parts.map(({ before }) => before.trim())).toContain(
    'use := strings.Replace(c.Use, c.Name(), c.displayName(), 1)',
  )
  // As it is in cobra, where no test sees the names of flag sets, or a subcommand with a name to display.
  const isUnseen = (text: string) => text.includes('NewFlagSet') || text.includes('parent')
  const tried = parts.map((variant) => ({ variant, isPassed: isUnseen(variant.before) }))
  const counts = summariseVariants(tried)
  expect([counts.groups, counts.necessary]).toEqual([6, 4])
  expect(counts.survivors).toHaveLength(4)
  expect(rejectWeakTests({ ...counts, runs: 0, cpuSeconds: 0 })).toBeUndefined()
})

test.each([
  [1, 'weak_tests'],
  [3, undefined],
])('a replacement in six places, of which tests need %i, is judged as %s', (needed, reason) => {
  const places = (code: string) =>
    Array.from({ length: 6 }, (_, n) => `def f${n}(text):\n    out${n} = ${code}\n    return out${n}\n\n`).join('')
  const parts = partsOf({ 'a.py': places('show(text)') }, { 'a.py': places('show(escape(text))') })
  expect(parts).toHaveLength(6)
  const counts = summariseVariants(parts.map((variant, at) => ({ variant, isPassed: at >= needed })))
  expect([counts.groups, counts.survivors.length]).toEqual([1, 6 - needed])
  expect(rejectWeakTests({ ...counts, runs: 0, cpuSeconds: 0 })?.reason).toBe(reason)
})

test('the same statement that is added in several places is several parts', () => {
  const places = (code: string) =>
    Array.from({ length: 3 }, (_, n) => `def f${n}(a):\n${code}    g${n}(a)\n\n`).join('')
  const parts = partsOf({ 'a.py': places('') }, { 'a.py': places('    check(a)\n') })
  expect(new Set(parts.map(({ edit }) => edit)).size).toBe(3)
})

const repeat = (line: (n: number) => string): string => Array.from({ length: 12 }, (_, n) => line(n)).join('')
const METHODS = (body: string, added: string) => {
  const others = repeat((n) => `    def g${n}(self):\n        return ${n}\n\n`)
  const method = `    def _sum(self, a):\n        """Adds."""\n${added}`
  return `class A:\n    def f(self, a):\n${body}        return c\n\n${others}${added && method}`
}
const FUNCTIONS = (body: string, added: string) => {
  const others = repeat((n) => `func g${n}() int {\n\treturn ${n}\n}\n\n`)
  return `package a\n\nfunc f(c *C) string {\n${body}}\n\n${others}${added && `func (c *C) shown() string {\n${added}}\n`}`
}

test.each<[string, string, string, string, number]>([
  [
    'cobra 1956: a constant of Go',
    'a.go',
    'const (\n\tone = 1\n)\n\nfunc f() {\n\tg("help", true)\n}\n',
    'const (\n\tone = 1\n\thelpFlagName = "help"\n)\n\nfunc f() {\n\tg(helpFlagName, true)\n}\n',
    1,
  ],
  [
    'a constant with another value',
    'a.go',
    'func f() {\n\tg("help", true)\n}\n',
    'const helpFlagName = "Help"\n\nfunc f() {\n\tg(helpFlagName, true)\n}\n',
    2,
  ],
  [
    'a variable of Go that may change',
    'a.go',
    'func f() {\n\tg("help", true)\n}\n',
    'func init() {\n\tname = "help"\n}\n\nfunc f() {\n\tg(name, true)\n}\n',
    2,
  ],
  [
    'a constant of Python',
    'a.py',
    'import b\n\ndef f():\n    return g(5)\n',
    'import b\n\nLIMIT = 5\n\ndef f():\n    return g(LIMIT)\n',
    1,
  ],
  [
    'a constant of TypeScript',
    'a.ts',
    'import b\n\nfunction f() {\n  return g("a")\n}\n',
    'import b\n\nexport const NAME: string = "a";\n\nfunction f() {\n  return g(NAME)\n}\n',
    1,
  ],
  [
    'a key that has the name of a constant',
    'a.ts',
    'import b\n\nfunction f() {\n  return g({ "a": 1 })\n}\n',
    'import b\n\nconst NAME = "a"\n\nfunction f() {\n  return g({ NAME: 1 })\n}\n',
    2,
  ],
  [
    'a constant of one function, and a parameter of another with its name',
    'a.ts',
    'function f() {\n  return h()\n}\n\nfunction g(name) {\n  return h("a")\n}\n',
    'function f() {\n  const name = "a"\n  return h()\n}\n\nfunction g(name) {\n  return h(name)\n}\n',
    2,
  ],
  [
    'a constant of Rust',
    'a.rs',
    'use b;\n\nfn f() {\n    g(5)\n}\n',
    'use b;\n\nconst LIMIT: u32 = 5;\n\nfn f() {\n    g(LIMIT)\n}\n',
    1,
  ],
  [
    'a function with an operator around its call',
    'a.py',
    'import b\n\ndef f(a):\n    return a + 1 * 2\n',
    'import b\n\ndef next_of(a):\n    return a + 1\n\ndef f(a):\n    return next_of(a) * 2\n',
    2,
  ],
  [
    'a function of a sum',
    'a.py',
    'import b\n\ndef f(a, c):\n    return a + c * 2\n',
    'import b\n\ndef twice(x):\n    return x * 2\n\ndef f(a, c):\n    return twice(a + c)\n',
    2,
  ],
  [
    'a function beside a comparison',
    'a.py',
    'import b\n\ndef f(a, c):\n    return c == a or 1\n',
    'import b\n\ndef or_one(x):\n    return x or 1\n\ndef f(a, c):\n    return c == or_one(a)\n',
    2,
  ],
  [
    'a function that names a key after its parameter',
    'a.ts',
    'import b\n\nfunction f(a: A) {\n  return g({ a })\n}\n',
    'import b\n\nconst make = (one: A) => ({ one })\n\nfunction f(a: A) {\n  return g(make(a))\n}\n',
    2,
  ],
  [
    'an arrow function',
    'a.ts',
    'import b\n\nfunction f(a: A) {\n  return g(a.b.trim() || "x")\n}\n',
    'import b\n\nconst textOf = (one: A): string => one.b.trim() || "x"\n\nfunction f(a: A) {\n  return g(textOf(a))\n}\n',
    1,
  ],
  [
    'a method of the same name of something else',
    'a.ts',
    'import b\n\nfunction f(a: A) {\n  return g(a.b)\n}\n',
    'import b\n\nconst textOf = (one: A): string => one.b\n\nfunction f(a: A) {\n  return g(a.textOf(a))\n}\n',
    2,
  ],
  [
    'statements that moved into a function',
    'a.py',
    METHODS('        b = self.g(a)\n        if b:\n            b = 1\n        c = b + 2\n', ''),
    METHODS(
      '        c = self._sum(a)\n',
      '        b = self.g(a)\n        if b:\n            b = 1\n        return b + 2\n',
    ),
    1,
  ],
  [
    'statements that changed while they moved',
    'a.py',
    METHODS('        b = self.g(a)\n        if b:\n            b = 1\n        c = b + 2\n', ''),
    METHODS(
      '        c = self._sum(a)\n',
      '        b = self.g(a)\n        if b > 0:\n            b = 1\n        return b + 2\n',
    ),
    2,
  ],
  [
    'statements that moved into a function of Go',
    'a.go',
    FUNCTIONS('\tif c.a {\n\t\treturn "a"\n\t}\n\treturn c.Name()\n', ''),
    FUNCTIONS('\treturn c.shown()\n', '\tif c.a {\n\t\treturn "a"\n\t}\n\treturn c.Name()\n'),
    1,
  ],
  [
    'statements with a return in a function whose result is assigned',
    'a.go',
    FUNCTIONS('\tif c.a {\n\t\treturn "a"\n\t}\n\tx = c.Name()\n', ''),
    FUNCTIONS('\tx = c.shown()\n', '\tif c.a {\n\t\treturn "a"\n\t}\n\treturn c.Name()\n'),
    2,
  ],
  ['a comma at the end of a list', 'a.ts', 'f(\n  a,\n  b\n)\n', 'f(\n  a,\n  b,\n)\n', 0],
  ['a comma that makes a tuple', 'a.py', 'x = 1\n', 'x = 1,\n', 1],
  ['a variable called use', 'a.go', 'func f() {\n\tg(a)\n}\n', 'func f() {\n\tuse := h(a)\n\tg(a)\n}\n', 1],
])('%s', (_, path, before, after, parts) => {
  expect(partsOf({ [path]: before }, { [path]: after })).toHaveLength(parts)
})

test('a name that two files define in different ways is not replaced', () => {
  const file = (start: string, value: string) => `import b\n\n${start}export function f() {\n  return g(${value})\n}\n`
  const before = { 'a.ts': file('', '"a"'), 'b.ts': file('', '"a"') }
  const after = { 'a.ts': file('const NAME = "a"\n', 'NAME'), 'b.ts': file('const NAME = "b"\n', 'NAME') }
  expect(partsOf(before, after)).toHaveLength(4)
})

const OPTIONS = (body: string) => `def add_url_rule(self, view_func, methods, provide):
    required = set(getattr(view_func, "required_methods", ()))

    if provide is None:
        provide = getattr(
            view_func, "provide", None
        )

${body}
    # Add the required methods now.
    methods |= required
`

test('flask 5917: incomplete solutions are still tried', () => {
  const before = OPTIONS(`    if provide is None:
        if "OPTIONS" not in methods and self.config["OPTIONS"]:
            provide = True
            required.add("OPTIONS")
        else:
            provide = False
`)
  const after = OPTIONS(`        if provide is None:
            provide = (
                "OPTIONS" not in methods
                and self.config["OPTIONS"]
            )

    if provide:
        required.add("OPTIONS")
`)
  const variants = variantsOf({ 'app.py': before }, { 'app.py': after })
  expect(variants.map((each) => [each.kind, each.before.trim(), each.after.trim()])).toEqual([
    ['part', expect.stringContaining('if provide:'), expect.stringContaining('provide = True')],
    ['mutant', expect.stringContaining('provide = ('), 'pass'],
    ['mutant', 'if provide is None:', 'if not (provide is None):'],
    ['mutant', 'required.add("OPTIONS")', 'pass'],
    ['mutant', 'if provide:', 'if not (provide):'],
  ])
})

test.each([
  ['calls', (n: number) => `\tf(${'f('.repeat(20)}\n\tx${n} := f("a")\n`],
  ['constants', (n: number) => `const c${n} = "${'x'.repeat(300)}"\n\tg(c${n}, c${n}, c${n}, c${n})\n`],
  ['functions', (n: number) => `func f${n}(a string) string {\n\treturn a + a\n}\n\tf${n}(f${n}(f${n}(a)))\n`],
])('reads many %s in linear time', async (_, line) => {
  const text = Array.from({ length: 5000 }, (_, n) => line(n)).join('')
  const before = trees.treeOf({ 'a.go': 'func f(a string) string {\n' })
  const after = trees.treeOf({ 'a.go': `func f(a string) string {\n\treturn a\n}\n${text}` })
  const patch = trees.diff(before, after)
  expect(await cpuMs(() => listVariants(patch, LIMITS))).toBeLessThan(3000)
})

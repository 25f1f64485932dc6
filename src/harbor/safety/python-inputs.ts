import type { TextFile } from './view.ts'

/** Returns the path of a file of the submission that stands for an input whose file is not known. */
const toUnknownFile = (submission: readonly string[], name: string): string => `${submission[0] ?? '/app'}/${name}`

/**
 * Rewrites Python code so that its inputs are files whose contents can be followed: arguments, standard input, variables of
 * the environment, and files that objects and short functions read. `scripts`: the shell scripts that may run it.
 */
export function nameInputs(
  { path, text }: Pick<TextFile, 'path' | 'text'>,
  submission: readonly string[],
  scripts: readonly string[],
): string {
  const calls = listCalls(path, scripts)
  const isOwnInput = calls.length > 0 && calls.every(({ input }) => input.startsWith('/tests/'))
  const nameArgument = (at: number): string => {
    const words = new Set(calls.map(({ words }) => words[at - 1] ?? ''))
    const [word = ''] = words.size === 1 ? words : []
    return `'${/^\/[\w./-]+$/.test(word) ? word : toUnknownFile(submission, `argument.${at}`)}'`
  }
  const input = `open('${isOwnInput ? '/tests/input' : toUnknownFile(submission, 'input.txt')}')`
  return withSharedNames(withCases(text))
    .replaceAll(/\bsys\.argv\s*\[\s*(\d+)\s*\]/g, (_, at: string) => nameArgument(Number(at)))
    .replaceAll(/\bsys\.argv\b|\b\w+\.parse_(?:known_)?args\([^()]*\)(?:\[0\])?/g, () => nameArgument(1))
    .replaceAll(/\bsys\.stdin(?:\.buffer)?\b/g, input)
    .replaceAll(/(?<![\w.])input\([^()]*\)/g, `${input}.read()`)
    .replaceAll(VARIABLE, (whole, name: string) =>
      OWN_VARIABLE.test(name) ? whole : `'${toUnknownFile(submission, `${name}.value`)}'`,
    )
    .replaceAll(/\b(?:os\.getcwd\(\)|Path\.cwd\(\))/g, `Path('${submission[0] ?? '/app'}')`)
    .replaceAll(/^([ \t]*)(\w+)\.read\((['"][^'"\n]+['"])\)/gm, '$1$2 = open($3)')
    .replaceAll(/^([ \t]*)(\w+) = lambda ([\w, ]*): (.+)$/gm, '$1def $2($3):\n$1    return $4')
}

/** A variable of the environment without a default value. */
const VARIABLE = /\bos\.(?:environ\[|environ\.get\(|getenv\()\s*['"](\w+)['"]\s*[\])]/g
/** Variables that hold expected values, or name the folder of the tests. */
const OWN_VARIABLE = /TEST|EXPECT|WANT/

/** Lists the calls of a Python file in shell scripts, with the arguments and the input that are written there. */
function listCalls(path: string, scripts: readonly string[]): { words: string[]; input: string }[] {
  const name = /[\w.-]+$/.exec(path)?.[0].replaceAll('.', '\\.') ?? ''
  const call = new RegExp(
    `python[\\d.]*[^\\n;|&]{0,40}/${name}\\b["']?([^\\n;|&<>]{0,500})(?:<\\s*["']?([\\w./-]+))?`,
    'g',
  )
  return scripts.flatMap((script) =>
    [...script.matchAll(call)].map(([, words = '', input = '']) => ({
      words: words.split(/\s+/).flatMap((word) => word.replaceAll(/["']/g, '') || []),
      input,
    })),
  )
}

/** Adds a call of every test with its cases: `@pytest.mark.parametrize('row', ROWS)`. */
function withCases(text: string): string {
  const calls = [...text.matchAll(PARAMETRIZED)].map(([, names = '', values = '', test = '']) => {
    const params = names.split(',').map((name) => `${name.trim()}=${values}`)
    return `${test}(${params.join(', ')})`
  })
  return [text, ...calls].join('\n')
}

const PARAMETRIZED =
  /^[ \t]*@pytest\.mark\.parametrize\(\s*['"]([\w, ]{1,200})['"]\s*,\s*([\w.]{1,100})[^\n]{0,300}\)\n(?:[ \t]*@[^\n]{0,300}\n){0,10}[ \t]*(?:async )?def (\w+)/gm

/** Maximum number of classes, and of global variables, that are followed: the time grows with it. */
const NAMES_MAX = 50

/** Spells attributes of classes and global variables like attributes of `self`, which all functions share. */
function withSharedNames(text: string): string {
  const classes = [...text.matchAll(/^[ \t]*class (\w+)/gm)].map(([, name = '']) => name).slice(0, NAMES_MAX)
  const globals = [...text.matchAll(/^[ \t]+global ([\w, ]+)$/gm)]
    .flatMap(([, names = '']) => names.split(/, */))
    .slice(0, NAMES_MAX)
  const owners = ['cls', ...classes].join('|')
  const attributes = text.replaceAll(new RegExp(`(?<![\\w.'"])(?:${owners})\\.(?=[A-Za-z_])`, 'g'), 'self.')
  const shared = globals.length === 0 ? attributes : attributes.replaceAll(toNamePattern(globals), 'self.$&')
  return declareAttributes(shared)
}

const toNamePattern = (names: readonly string[]): RegExp =>
  new RegExp(`(?<![\\w.'"])(?:${names.join('|')})(?!\\w)`, 'g')

/** Turns assignments in the body of a class into assignments to attributes. */
function declareAttributes(text: string): string {
  let body: ClassBody = NO_CLASS
  const lines = text.split('\n').map((line) => {
    const indent = line.search(/\S/)
    if (indent === -1) return line
    body = enterLine(body, line, indent)
    return body.inner === indent ? line.replace(ATTRIBUTE, '$1self.$2 =') : line
  })
  return lines.join('\n')
}

/** Indentation of a class and of the statements in it. */
type ClassBody = { outer: number; inner?: number }
const NO_CLASS: ClassBody = { outer: Number.POSITIVE_INFINITY }

function enterLine({ outer, inner }: ClassBody, line: string, indent: number): ClassBody {
  if (CLASS.test(line)) return { outer: indent }
  return indent <= outer ? NO_CLASS : { outer, inner: inner ?? indent }
}

const CLASS = /^\s*class \w/
const ATTRIBUTE = /^(\s*)([A-Za-z_]\w*)(?:\s*:[^=\n]{1,100})?\s*=(?!=)/

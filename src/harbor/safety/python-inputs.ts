import type { TextFile } from './view.ts'

/** Name of a file of the submission that stands for an input whose file is not known. */
const unknownFile = (submission: readonly string[], name: string): string => `${submission[0] ?? '/app'}/${name}`

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
    return `'${/^\/[\w./-]+$/.test(word) ? word : unknownFile(submission, `argument.${at}`)}'`
  }
  const input = `open('${isOwnInput ? '/tests/input' : unknownFile(submission, 'input.txt')}')`
  return text
    .replaceAll(/\bsys\.argv\s*\[\s*(\d+)\s*\]/g, (_, at: string) => nameArgument(Number(at)))
    .replaceAll(/\bsys\.argv\b|\b\w+\.parse_(?:known_)?args\([^()]*\)(?:\[0\])?/g, () => nameArgument(1))
    .replaceAll(/\bsys\.stdin(?:\.buffer)?\b/g, input)
    .replaceAll(/(?<![\w.])input\([^()]*\)/g, `${input}.read()`)
    .replaceAll(VARIABLE, (whole, name: string) =>
      OWN_VARIABLE.test(name) ? whole : `'${unknownFile(submission, `${name}.value`)}'`,
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

import { findSourceLanguage } from '../../grading/languages/languages.ts'
import type { HiddenTests } from '../../grading/suite.ts'
import { decodeText } from '../candidates/read-diffs.ts'
import { collapseSpace } from '../lint/render-instruction.ts'

/** An assertion of a fail-to-pass test. An empty `text` stands for the whole test, whose assertions are not known. */
export type TestAssertion = { number: number; test: string; text: string }

const ASSERTIONS_MAX = 100
/** Bounds the comparison of each test with each function. */
const FUNCTIONS_MAX = 10_000

/**
 * Lists the assertions of the fail-to-pass tests, found by the layout of the code. A test without known assertions, or
 * in a language whose tests are not read, has one entry. If there are more than `ASSERTIONS_MAX`, each test is
 * represented by its first ones.
 */
export function listTestAssertions(hidden: HiddenTests, failToPass: readonly string[]): TestAssertion[] {
  const functions = hidden.files
    .flatMap(({ path, content }) => listTestFunctions(path, decodeText(content)))
    .slice(0, FUNCTIONS_MAX)
  const tests = new Map<string, string[]>()
  for (const id of failToPass) {
    const matching = functions.filter(({ matches }) => matches(id))
    const inFile = matching.filter(({ stem }) => id.includes(stem))
    const texts = (inFile.length > 0 ? inFile : matching).flatMap(({ assertions }) => assertions)
    tests.set(removeParameters(id), texts)
  }
  const perTest = [...tests].map(([test, texts]) =>
    [...new Set(texts.length > 0 ? texts : [''])].map((text) => ({ test, text })),
  )
  return selectEvenly(perTest).map((each, at) => ({ number: at + 1, ...each }))
}

/** Takes the same number of first entries of each list: as many as `ASSERTIONS_MAX` allows. */
function selectEvenly<T>(lists: readonly T[][]): T[] {
  let share = Math.max(1, ...lists.map(({ length }) => length))
  const count = () => lists.reduce((sum, { length }) => sum + Math.min(length, share), 0)
  while (share > 1 && count() > ASSERTIONS_MAX) share -= 1
  return lists.flatMap((list) => list.slice(0, share)).slice(0, ASSERTIONS_MAX)
}

/** Removes parameters (`[0-a]`) and subtests (`TestA/b`), which share the code of one test. */
const removeParameters = (id: string): string => id.replace(/\[.*\]$/s, '').replace(/(::Test\w+)\/.*$/s, '$1')

/** A test in a hidden file. `stem` is the name of the file without its extension. */
type TestFunction = { stem: string; matches(id: string): boolean; assertions: string[] }

/** Syntax of tests and their assertions in a language. */
type TestSyntax = {
  /** The line on which a test begins. The group `name` is its name. */
  opening: RegExp
  isNamed(id: string, name: string): boolean
  assertion: RegExp
  /** Completes the assertion on a line. Returns its whole text. */
  complete(lines: readonly string[], at: number): string
}

const python: TestSyntax = {
  opening: /^\s*(?:async\s+)?def (?<name>test\w*)\s*\(/,
  isNamed: (id, name) => readFunctionName(id) === name,
  assertion:
    /^\s*(?:assert\b|self\.(?:assert\w+|fail)\(|(?:async )?with .*\b(?:raises|warns|assert[A-Z]\w+)\(|pytest\.(?:raises|fail)\(|[\w.]+\.assert_\w+\()/,
  complete(lines, at) {
    const { text, end } = joinBalanced(lines, at)
    return text.endsWith(':') ? `${text} ${joinBalanced(lines, end + 1).text}` : text
  },
}

const javascript: TestSyntax = {
  // The title also follows the end of a `test.each` table: `])` or a backtick.
  opening:
    /^\s*(?:(?:test|it|specify)(?:\.\w+)*(?:\(.*\))?|\]\s*(?:as const)?\)|`)\(\s*(?<quote>['"`])(?<name>.*?)\k<quote>/,
  isNamed: isTitled,
  assertion:
    /^\s*(?:await |return |void )*(?:(?:chai\.)?expect|assert|should|t)\b[\w.]*\(|^\s*\.expect\(|\.should\.|=>\s*(?:expect|assert)[\w.]*\(/,
  complete(lines, at) {
    let { text, end } = joinBalanced(lines, at)
    while (/^\s*\.(?!expect\()/.test(lines[end + 1] ?? '')) {
      const next = joinBalanced(lines, end + 1)
      text += next.text
      end = next.end
    }
    return text
  },
}

const go: TestSyntax = {
  opening: /^func (?<name>Test\w+)\(/,
  isNamed: (id, name) => new RegExp(`(?:^|[^\\w])${name}(?:/|$)`).test(id),
  assertion: /\b(?:t|tb|c)\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|^\s*(?:assert|require|is|must)\w*(?:\.\w+)?\(/,
  complete(lines, at) {
    const { text } = joinBalanced(lines, at)
    const depth = measureIndent(lines[at] ?? '')
    const condition = lines.slice(0, at).findLast((line) => line.trim() !== '' && measureIndent(line) < depth)
    return /^\s*(?:\} else )?if\b|^\s*(?:case|default)\b/.test(condition ?? '') ? `${condition?.trim()} ${text}` : text
  },
}

const SYNTAXES: Record<string, TestSyntax> = { python, javascript, typescript: javascript, go }

function listTestFunctions(path: string, text: string): TestFunction[] {
  const syntax = SYNTAXES[findSourceLanguage(path)?.name ?? '']
  if (!syntax) return []
  const stem = path.slice(path.lastIndexOf('/') + 1).replace(/\.\w+$/, '')
  // Very long lines are generated. Regular expressions on them would be slow.
  const lines = text.split('\n').map((line) => (line.length > LINE_LENGTH_MAX ? '' : line))
  return lines.flatMap((line, at) => {
    const name = syntax.opening.exec(line)?.groups?.name
    if (name === undefined) return []
    return [
      {
        stem,
        matches: (id: string) => syntax.isNamed(id, name),
        assertions: listAssertions(syntax, readBlock(lines, at)),
      },
    ]
  })
}

const LINE_LENGTH_MAX = 1000
const TEXT_LENGTH_MAX = 300

const listAssertions = (syntax: TestSyntax, lines: readonly string[]): string[] =>
  lines.flatMap((line, at) =>
    syntax.assertion.test(line)
      ? [collapseSpace(syntax.complete(lines, at)).slice(0, TEXT_LENGTH_MAX).toWellFormed()]
      : [],
  )

const measureIndent = (line: string): number => line.length - line.trimStart().length

/** Reads a line and the lines below it that are indented more, as formatters lay out code. */
function readBlock(lines: readonly string[], at: number): string[] {
  const depth = measureIndent(lines[at] ?? '')
  const isInBlock = (line: string) =>
    line.trim() === '' || measureIndent(line) > depth || /^\s*[)\]}]+\s*(?:->.*)?:\s*$/.test(line)
  let end = at + 1
  while (end < lines.length && isInBlock(lines[end] ?? '')) end += 1
  return lines.slice(at, end)
}

const JOINED_LINES_MAX = 20

/** Joins a line with the next ones until its brackets are closed. Brackets in strings are not counted. */
function joinBalanced(lines: readonly string[], at: number): { text: string; end: number } {
  let unclosed = 0
  let end = at
  for (; end < Math.min(lines.length, at + JOINED_LINES_MAX); end += 1) {
    const code = (lines[end] ?? '').replaceAll(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`/g, '')
    unclosed += (code.match(/[([{]/g)?.length ?? 0) - (code.match(/[)\]}]/g)?.length ?? 0)
    if (unclosed <= 0) break
  }
  return {
    text: lines
      .slice(at, end + 1)
      .join(' ')
      .trim(),
    end,
  }
}

/** Returns the name of a test function without its file, class and parameters. */
const readFunctionName = (id: string): string =>
  id
    .replace(/\[.*\]$/s, '')
    .split(/::|[.#]/)
    .at(-1) ?? ''

/** Returns true if an id ends in a title. A title may contain placeholders (`%s`, `$name`, `${name}`), which the id has filled in. */
function isTitled(id: string, title: string): boolean {
  const parts = title.split(/%[a-z#%]|\$\{[^}]*\}|\$[\w.]+/).map(collapseSpace)
  let from = 0
  for (const part of parts) {
    const at = id.indexOf(part, from)
    if (at < 0) return false
    from = at + part.length
  }
  return id.endsWith(parts.at(-1) ?? '')
}

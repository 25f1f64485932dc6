import type { SourceLanguage } from '../../grading/languages/language.ts'
import { findSourceLanguage } from '../../grading/languages/languages.ts'
import { decodeText, PATCH_SECTION, unquotePath } from '../candidates/read-diffs.ts'
import { scanCode } from '../lint/exposed-symbols.ts'
import { listCodeLines, removeAnnotations } from './python-code.ts'
import { listTypeLines, removeTypes } from './typescript-code.ts'

/** An incomplete or wrong solution, derived from the reference solution by one edit. */
export type SolutionVariant = {
  /** `part`: a part of the change is left out. `mutant`: a line of it is altered. */
  kind: 'part' | 'mutant'
  path: string
  /** Line of the file after the change. */
  line: number
  /** Code of the reference solution, and the code that replaces it. Truncated. */
  before: string
  after: string
  /** The whole solution, as a patch in latin1. */
  patch: string
}

/** Maximum numbers of variants. */
export type VariantLimits = { parts: number; mutants: number }

/**
 * Derives variants of a solution, each without one run of changed lines or with one altered line. Runs that change no
 * behaviour (comments, documentation, imports, types, log messages) are not used. If there are more variants than the limits
 * allow, they are selected at equal distances; the choice depends on the patch alone.
 */
export function listVariants(source: string, limits: VariantLimits): SolutionVariant[] {
  const files = parseFiles(source)
  const runs = files.flatMap((file) => file.hunks.flatMap((hunk) => listRuns(file, hunk))).filter(changesBehaviour)
  const render = (run: ChangeRun, lines: readonly string[]) => renderFiles(files, run, lines)
  const parts = runs.map(
    (run): BuildVariant =>
      () =>
        omitRun(run, render),
  )
  const mutants = runs.flatMap((run) => mutateRun(run, render))
  const selected = [...selectEvenly(parts, limits.parts), ...selectEvenly(mutants, limits.mutants)]
  return selected.map((build) => build())
}

/** Builds a variant that was selected. Each contains the whole patch, so building all of them would take gigabytes. */
type BuildVariant = () => SolutionVariant

/** Selects at most `max` of the values at equal distances. */
const selectEvenly = <T>(values: readonly T[], max: number): T[] =>
  values
    .filter((_, at) => Math.floor((at * max) / values.length) !== Math.floor(((at - 1) * max) / values.length))
    .slice(0, max)

type VariantFile = {
  header: string
  path: string
  language: SourceLanguage | undefined
  hunks: PatchHunk[]
}
type PatchHunk = {
  oldStart: number
  newStart: number
  lines: string[]
  /** For each side, whether a line belongs to it and is code rather than documentation or a declaration of types. */
  isCode: Record<Side, boolean[]>
}
/** The file before and after the change. */
type Side = '-' | '+'

/** Consecutive changed lines: a hunk of a diff without context. `from` and `to` (exclusive) are indexes in `hunk.lines`. */
type ChangeRun = { file: VariantFile; hunk: PatchHunk; from: number; to: number }

const HUNK = /(?<![^\n])(?=@@ -\d)/
const RANGES = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/

function parseFiles(source: string): VariantFile[] {
  return source
    .split(PATCH_SECTION)
    .filter((section) => section.startsWith('diff --git '))
    .map((section) => {
      const isBinary = /^GIT binary patch/m.test(section.split(HUNK)[0] ?? '')
      const [header = '', ...bodies] = isBinary ? [section] : section.split(HUNK)
      // The new name. A deleted file has only the old one.
      const printed = (/^\+\+\+ "?b\/.*$/m.exec(header) ?? /^--- "?a\/.*$/m.exec(header))?.[0] ?? ''
      const path = unquotePath(printed.slice(4).replace(/\t$/, '')).slice(2)
      const language = findSourceLanguage(path)
      return { header, path, language, hunks: bodies.map((body) => parseHunk(body, language)) }
    })
}

function parseHunk(body: string, language: SourceLanguage | undefined): PatchHunk {
  const [, oldStart, newStart] = RANGES.exec(body) ?? []
  const lines = body.replace(/\n$/, '').split('\n').slice(1)
  const isCode = { '-': markSide(lines, '+', language), '+': markSide(lines, '-', language) }
  return { oldStart: Number(oldStart), newStart: Number(newStart), lines, isCode }
}

/** Marks the lines of one side of a hunk that are code. */
function markSide(lines: readonly string[], other: Side, language: SourceLanguage | undefined): boolean[] {
  const isOnSide = lines.map((line) => !line.startsWith(other))
  const marks = markCode(
    lines.filter((_, at) => isOnSide[at]),
    language,
  )
  let next = 0
  return isOnSide.map((isOn) => isOn && marks[next++] === true)
}

const isChange = (line: string): boolean => line.startsWith('+') || line.startsWith('-')

function listRuns(file: VariantFile, hunk: PatchHunk): ChangeRun[] {
  const runs: ChangeRun[] = []
  for (const [at, line] of hunk.lines.entries()) {
    const last = runs.at(-1)
    if (!isChange(line)) continue
    if (last?.to === at) last.to = at + 1
    else runs.push({ file, hunk, from: at, to: at + 1 })
  }
  // After a last line without a line end, git prints a remark that belongs to the line. Such runs are not used.
  return runs.filter(({ to }) => !hunk.lines[to]?.startsWith('\\'))
}

const NO_BEHAVIOUR = [
  /^(?:from\s+\S+\s+)?import\b|^export\s+(?:\*|\{.*\})\s+from\b|^(?:use|package|require|using)\b|^__all__\b/,
  /^(?:[\w.]*\blog(?:ger|ging)?|console|slog)\.\w+\(.*\)?;?$/i,
  /^(?:export\s+)?(?:type|interface)\s+\w+.*$|^[)\]}\s,;]*$|^pass$/,
  // Annotations of Java and attributes of Rust that only compilers and readers see.
  /^@(?:Deprecated|Override|SuppressWarnings|SafeVarargs|FunctionalInterface)(?:\([^()]*\))?$|^#\[(?:inline|must_use|allow|doc|deprecated)\b.*\]$/,
]

/** True if a run changes more than comments, documentation, imports, types and messages of logs. */
function changesBehaviour(run: ChangeRun): boolean {
  return readBehaviour(run, '-') !== readBehaviour(run, '+')
}

function readBehaviour(run: ChangeRun, side: Side): string {
  const { language } = run.file
  const text = decodeText(listSideLines(run, side).join('\n'))
  const scanned = scanCode(text, language)
  const lines = scanned.code.split('\n').map((line) => line.trim())
  const code = lines.filter((line) => !NO_BEHAVIOUR.some((pattern) => pattern.test(line)))
  if (code.every((line) => line === '')) return ''
  const joined = code.join(' ')
  const removeTyping = TYPING_REMOVERS[language?.name ?? ''] ?? ((text: string) => text)
  return [removeTyping(joined), ...scanned.literals].join(' ').replaceAll(/\s+/g, '')
}

const TYPING_REMOVERS: Record<string, (code: string) => string> = { python: removeAnnotations, typescript: removeTypes }

/** Lists the lines of one side of a run, without those of documentation and of declarations of types. */
const listSideLines = ({ hunk, from, to }: ChangeRun, side: Side): string[] =>
  hunk.lines
    .slice(from, to)
    .filter((_, at) => hunk.isCode[side][from + at])
    .map((line) => line.slice(1))

/** Matches a line of a block comment that begins with an asterisk, as all lines of documentation do. */
const COMMENT_LINE = /^.\s*(?:\/\*\*?|\*\/|\*(?:\s.*)?)\s*$/

/** Returns for each line, with its sign, whether it is code rather than documentation or a declaration of types. */
function markCode(lines: readonly string[], language: SourceLanguage | undefined): boolean[] {
  if (language?.name === 'python') return listCodeLines(lines)
  const areTypes = language?.name === 'typescript' ? listTypeLines(lines.map((line) => line.slice(1))) : []
  const hasBlockComments = language === undefined || language.comments.endsWith('slashes')
  return lines.map((line, at) => !areTypes[at] && !(hasBlockComments && COMMENT_LINE.test(line)))
}

type RenderVariant = (run: ChangeRun, lines: readonly string[]) => string

const readLines = ({ hunk, from, to }: ChangeRun): string[] => hunk.lines.slice(from, to)
const listRemovedLines = (run: ChangeRun): string[] => readLines(run).filter((line) => line.startsWith('-'))

function omitRun(run: ChangeRun, render: RenderVariant): SolutionVariant {
  const restored = listRemovedLines(run).map((line) => ` ${line.slice(1)}`)
  const added = readLines(run).filter((line) => line.startsWith('+'))
  return {
    kind: 'part',
    path: run.file.path,
    line: lineNumber(run, run.from),
    before: shorten(added),
    after: shorten(restored),
    patch: render(run, restored),
  }
}

/** Alters the added lines of a run, one at a time. */
function mutateRun(run: ChangeRun, render: RenderVariant): BuildVariant[] {
  const lines = readLines(run)
  const at = lines.findIndex((line) => line.startsWith('+'))
  if (at < 0) return []
  const added = lines.slice(at).map((line) => line.slice(1))
  return listMutations(added, run.file.language?.name ?? '').map(({ from, to, replacement }) => () => {
    const altered = [...added.slice(0, from), ...replacement, ...added.slice(to)].map((line) => `+${line}`)
    return {
      kind: 'mutant',
      path: run.file.path,
      line: lineNumber(run, run.from + at + from),
      before: shorten(lines.slice(at + from, at + to)),
      after: shorten(replacement.map((line) => `+${line}`)),
      patch: render(run, [...lines.slice(0, at), ...altered]),
    }
  })
}

const lineNumber = ({ hunk }: ChangeRun, at: number): number =>
  hunk.newStart + hunk.lines.slice(0, at).filter((line) => line.startsWith(' ') || line.startsWith('+')).length

const SHOWN_MAX = 600

const shorten = (lines: readonly string[]): string =>
  decodeText(lines.map((line) => line.slice(1)).join('\n'))
    .slice(0, SHOWN_MAX)
    .toWellFormed()

/** Renders the patch with other lines in the place of a run. A file without any change is left out. */
const renderFiles = (files: readonly VariantFile[], run: ChangeRun, lines: readonly string[]): string =>
  files.map((file) => (file === run.file ? renderFile(file, run, lines) : renderFile(file))).join('')

function renderFile({ header, hunks }: VariantFile, run?: ChangeRun, replacement: readonly string[] = []): string {
  if (hunks.length === 0) return header
  let shift = 0
  const bodies = hunks.flatMap((hunk) => {
    const lines =
      hunk === run?.hunk ? [...hunk.lines.slice(0, run.from), ...replacement, ...hunk.lines.slice(run.to)] : hunk.lines
    if (!lines.some(isChange)) return []
    const count = (signs: string) => lines.filter((line) => signs.includes(line[0] ?? ' ')).length
    const [oldLines, newLines] = [count(' -'), count(' +')]
    // A side without lines is counted from the line before it.
    const newStart = hunk.oldStart + shift + (oldLines === 0 ? 1 : 0) - (newLines === 0 ? 1 : 0)
    shift += newLines - oldLines
    return [`@@ -${hunk.oldStart},${oldLines} +${newStart},${newLines} @@\n${lines.join('\n')}\n`]
  })
  return bodies.length === 0 ? '' : header + bodies.join('')
}

/** Replaces the lines `from` to `to` (exclusive). */
type Mutation = { from: number; to: number; replacement: string[] }

/** Syntax of one language, as far as mutations need it. */
type MutableSyntax = {
  comment: RegExp
  /** A line that opens a conditional block: its parts before, in and after the condition. */
  condition: RegExp
  negate(condition: string): string
  /** Statement that replaces the content of an emptied block. Null where a block may be empty. */
  emptyBlock: string | null
  /** Value that replaces a returned value. Null where the value must have the right type. */
  emptyValue: string | null
}

const BRACE_SYNTAX = { comment: /\/\/.*$/, emptyBlock: null }

const javascript: MutableSyntax = {
  ...BRACE_SYNTAX,
  condition:
    /^(?<before>\s*(?:\} else )?if \()(?<condition>.+)(?<after>\) (?:\{|return\b.*|throw\b.*|continue|break))$/,
  negate: (condition) => `!(${condition})`,
  emptyValue: 'undefined',
}

const SYNTAXES: Record<string, MutableSyntax> = {
  python: {
    comment: /#.*$/,
    condition: /^(?<before>\s*(?:if|elif) )(?<condition>.+)(?<after>:)$/,
    negate: (condition) => `not (${condition})`,
    emptyBlock: 'pass',
    emptyValue: 'None',
  },
  javascript,
  typescript: javascript,
  go: {
    ...BRACE_SYNTAX,
    condition: /^(?<before>\s*(?:\} else )?if (?:.+; )?)(?<condition>[^;]+)(?<after> \{)$/,
    negate: (condition) => `!(${condition})`,
    emptyValue: null,
  },
}

const LINE_MAX = 400

/** Lists mutations of added lines: at most one altered line at a time, and conditional blocks that do nothing. */
function listMutations(lines: readonly string[], language: string): Mutation[] {
  const syntax = SYNTAXES[language]
  if (!syntax) return []
  return lines.flatMap((line, at) => {
    if (line.length > LINE_MAX || /"""|'''/.test(line)) return []
    const code = maskText(line, syntax)
    const block = mutateBlock(lines, at, syntax)
    const altered = OPERATORS.map((operate) => operate(line, code, syntax)).filter((each) => each !== undefined)
    const mutations = altered.map((alteredLine) => ({ from: at, to: at + 1, replacement: [alteredLine] }))
    // Consecutive lines use different operators, so that few mutations show many kinds.
    const chosen = mutations[at % Math.max(1, mutations.length)]
    return [...(block ? [block] : []), ...(chosen ? [chosen] : [])]
  })
}

/** Blanks out strings and comments without moving anything. */
const maskText = (line: string, { comment }: MutableSyntax): string =>
  line
    .replaceAll(/"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`/g, (text) => ' '.repeat(text.length))
    .replace(comment, (text) => ' '.repeat(text.length))

type MutationOperator = (line: string, code: string, syntax: MutableSyntax) => string | undefined

const COMPARISONS: Record<string, string> = {
  '<=': '<',
  '<': '<=',
  '>=': '>',
  '>': '>=',
  '==': '!=',
  '!=': '==',
  '===': '!==',
  '!==': '===',
}

const changeComparison: MutationOperator = (line, code) => {
  const found = /(?<= )(?:[<>]=?|[!=]==?)(?= )/.exec(code)
  return found ? replaceAt(line, found, COMPARISONS[found[0]] ?? found[0]) : undefined
}

const CONSTANTS: Record<string, string> = { True: 'False', False: 'True', true: 'false', false: 'true' }

/** A Go statement that returns an error. The other returned values are meaningless. */
const RETURNS_ERROR = /^\s*return .*, *(?:err|fmt\.Errorf\(.*\)|errors\.New\(.*\)|Err\w+)$/

const changeConstant: MutationOperator = (line, code) => {
  if (RETURNS_ERROR.test(line)) return undefined
  const found = /(?<![\w.])(?:\d{1,9}|True|False|true|false)(?![\w.])/.exec(code)
  return found ? replaceAt(line, found, CONSTANTS[found[0]] ?? String(Number(found[0]) + 1)) : undefined
}

const negateCondition: MutationOperator = (line, _, { condition: pattern, negate }) => {
  const { before, condition, after } = pattern.exec(line)?.groups ?? {}
  return condition === undefined ? undefined : `${before}${negate(condition)}${after}`
}

const dropReturnValue: MutationOperator = (line, code, { emptyValue }) => {
  const found = /^(\s*return )\S.*$/.exec(line)
  const isOpen = (code.match(/[([{]/g)?.length ?? 0) !== (code.match(/[)\]}]/g)?.length ?? 0)
  return found && emptyValue !== null && !isOpen && !line.trim().endsWith(emptyValue)
    ? `${found[1]}${emptyValue}`
    : undefined
}

const OPERATORS: readonly MutationOperator[] = [changeComparison, changeConstant, negateCondition, dropReturnValue]

const replaceAt = (line: string, { index, 0: found }: RegExpExecArray, text: string): string =>
  line.slice(0, index) + text + line.slice(index + found.length)

const measureIndent = (line: string): number => line.length - line.trimStart().length

/** Removes the added lines of the conditional block that a line opens. */
function mutateBlock(lines: readonly string[], at: number, syntax: MutableSyntax): Mutation | undefined {
  const head = lines[at] ?? ''
  if (!syntax.condition.test(head)) return undefined
  const rest = lines.slice(at + 1)
  const end = rest.findIndex((line) => line.trim() !== '' && measureIndent(line) <= measureIndent(head))
  const length = end < 0 ? rest.length : end
  const [first] = rest
  if (length === 0 || first === undefined) return undefined
  const filler = syntax.emptyBlock === null ? [] : [first.slice(0, measureIndent(first)) + syntax.emptyBlock]
  return { from: at + 1, to: at + 1 + length, replacement: filler }
}

import type { SourceLanguage } from '../../grading/languages/language.ts'
import { findSourceLanguage } from '../../grading/languages/languages.ts'
import { decodeText, PATCH_SECTION, unquotePath } from '../candidates/read-diffs.ts'
import { scanCode } from '../lint/exposed-symbols.ts'
import { expandNames } from './expand-names.ts'
import { collectNames, type IntroducedNames, type LandedPiece } from './introduced-names.ts'
import { classifyLines, type LineKind, removeAnnotations } from './python-code.ts'
import { listMutations } from './solution-mutants.ts'
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
  /** Variants with the same number make the same replacement in several places. */
  edit: number
  /** The whole solution, as a patch in latin1. */
  patch: string
}

/** A variant that passes all tests. */
export type SurvivingVariant = Omit<SolutionVariant, 'patch' | 'edit'>

/** Maximum numbers of variants. */
export type VariantLimits = { parts: number; mutants: number }

/**
 * Derives variants of a solution, each without one run of changed lines or with one altered line. Runs that change no
 * behaviour are not used: comments, documentation, imports, types, log messages, and new names for what was written
 * out before. If there are more variants than the limits allow, they are selected at equal distances, different edits
 * before repeated ones; the choice depends on the patch alone.
 */
export function listVariants(source: string, limits: VariantLimits): SolutionVariant[] {
  const files = parseFiles(source)
  const namesOf = createNameLookup(files)
  const allRuns = files
    .filter(({ path }) => !TYPE_DECLARATIONS.test(path))
    .flatMap((file) => file.hunks.flatMap((hunk) => listRuns(file, hunk)))
  const runs = numberEdits(allRuns.map((run) => ({ run, ...readEdit(run, namesOf(run.file)) })))
  const render = (run: ChangeRun, lines: readonly string[]) => renderFiles(files, run, lines)
  const [firsts, repeats] = [runs.filter(({ isRepeat }) => !isRepeat), runs.filter(({ isRepeat }) => isRepeat)]
  const chosen = selectEvenly(firsts, limits.parts)
  const parts = new Set([...chosen, ...selectEvenly(repeats, limits.parts - chosen.length)])
  const mutants = runs.flatMap((run) => mutateRun(run, render))
  return [
    ...runs.filter((run) => parts.has(run)).map((run) => omitRun(run, render)),
    ...selectEvenly(mutants, limits.mutants).map((build) => build()),
  ]
}

/** Files that contain only types. */
const TYPE_DECLARATIONS = /\.(?:pyi|d\.[cm]?ts)$/

/** Returns the names that a change introduces, as a file sees them. */
function createNameLookup(files: readonly VariantFile[]): (file: VariantFile) => IntroducedNames {
  const pieces = files.flatMap(({ path, language, hunks }) =>
    hunks.map((hunk): LandedPiece => ({ path, language: language?.name ?? '', lines: listLandedLines(hunk) })),
  )
  const namesByScope = new Map<string, IntroducedNames>()
  return ({ path, language }) => {
    const scope = `${language?.name} ${path.slice(0, path.lastIndexOf('/') + 1)}`
    const names = namesByScope.get(scope) ?? collectNames(pieces, path, language?.name ?? '')
    namesByScope.set(scope, names)
    return names
  }
}

const listLandedLines = ({ lines, kinds }: PatchHunk): LandedPiece['lines'] =>
  lines.flatMap((line, at) =>
    line.startsWith('-')
      ? []
      : [{ text: decodeText(line.slice(1)), isAdded: line.startsWith('+'), isCode: kinds['+'][at] === 'code' }],
  )

/** Behaviour of the lines of a run before and after the change. */
type RunEdit = { run: ChangeRun; before: string; after: string }
type NumberedRun = ChangeRun & { edit: number; isRepeat: boolean }

/** Leaves out runs that change no behaviour, and gives equal replacements the same number. */
function numberEdits(edits: readonly RunEdit[]): NumberedRun[] {
  const numbers = new Map<string, number>()
  return edits
    .filter(({ before, after }) => before !== after)
    .map(({ run, before, after }, at) => {
      const isReplacement = before !== '' && after !== ''
      const key = isReplacement ? `${before.replace(TARGET, '')}\n${after.replace(TARGET, '')}` : `${at}`
      const edit = numbers.get(key) ?? at
      numbers.set(key, edit)
      return { ...run, edit, isRepeat: edit !== at }
    })
}

/** The variable that a statement assigns to, in code without white space. Lines that end with a comma are arguments. */
const TARGET = /^[\w$.]+:?=(?![=>])(?!.*,$)/

/** Builds a variant that was selected. Each contains the whole patch, so building all of them would take gigabytes. */
type BuildVariant = () => SolutionVariant

/** Selects at most `max` values at equal distances: those where `at * max / length` reaches another whole number. */
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
  /** For each side, the kind of each line. Lines of the other side are `other`. */
  kinds: Record<Side, LineKind[]>
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
  const kinds = { '-': classifySide(lines, '+', language), '+': classifySide(lines, '-', language) }
  return { oldStart: Number(oldStart), newStart: Number(newStart), lines, kinds }
}

/** Classifies the lines of one side of a hunk. */
function classifySide(lines: readonly string[], otherSide: Side, language: SourceLanguage | undefined): LineKind[] {
  const isOnSide = lines.map((line) => !line.startsWith(otherSide))
  const ownLines = lines.filter((_, at) => isOnSide[at])
  const ownKinds = classifyCode(ownLines, language).values()
  return isOnSide.map((isOn) => (isOn ? (ownKinds.next().value ?? 'other') : 'other'))
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

/** Lines that change no behaviour: imports, log messages, type declarations, closing brackets, annotations. */
const NO_BEHAVIOUR = [
  /^(?:from\s+\S+\s+)?import\b|^export\s+(?:\*|\{.*\})\s+from\b|^(?:use|package|require|using)\b(?!\s*(?:[-+*/|.:]?=|\.|\+\+))|^__all__\b/,
  /^(?:[\w.]*\blog(?:ger|ging)?|console|slog)\.\w+\(.*\)?;?$/i,
  /^(?:export\s+)?(?:type|interface)\s+\w+.*$|^[)\]}\s,;]*$|^pass$/,
  // Annotations of Java and attributes of Rust that only compilers and readers see.
  /^@(?:Deprecated|Override|SuppressWarnings|SafeVarargs|FunctionalInterface)(?:\([^()]*\))?$|^#\[(?:inline|must_use|allow|doc|deprecated)\b.*\]$/,
]

const readEdit = (run: ChangeRun, names: IntroducedNames): Omit<RunEdit, 'run'> => ({
  before: readBehaviour(run, '-', names),
  after: readBehaviour(run, '+', names),
})

/** Reads one side of a run without comments, documentation, imports, types, messages of logs and white space. */
function readBehaviour(run: ChangeRun, side: Side, names: IntroducedNames): string {
  const { language } = run.file
  const text = expandNames(decodeText(listSideLines(run, side).join('\n')), names)
  const scanned = scanCode(text, language)
  const lines = scanned.code.split('\n').map((line) => line.trim())
  const code = lines.filter((line) => !NO_BEHAVIOUR.some((pattern) => pattern.test(line)))
  if (code.every((line) => line === '')) return ''
  // Outside of Python, where it makes a tuple, a comma at the end of a list means nothing.
  const joined = code.join(' ').replace(language?.name === 'python' ? /\s+$/ : /[\s,]+$/, '')
  const removeTyping = TYPING_REMOVERS[language?.name ?? ''] ?? ((text: string) => text)
  return [removeTyping(joined), ...scanned.literals].join(' ').replaceAll(/\s+/g, '')
}

const TYPING_REMOVERS: Record<string, (code: string) => string> = { python: removeAnnotations, typescript: removeTypes }

/** Lists the lines of one side of a run, without those of documentation and of declarations of types. */
const listSideLines = ({ hunk, from, to }: ChangeRun, side: Side): string[] =>
  hunk.lines
    .slice(from, to)
    .filter((_, at) => hunk.kinds[side][from + at] !== 'other')
    .map((line) => line.slice(1))

/** Matches a line of a block comment that begins with an asterisk, as all lines of documentation do. */
const COMMENT_LINE = /^.\s*(?:\/\*\*?|\*\/|\*(?:\s.*)?)\s*$/

/** Classifies lines, with their signs, of one file. */
function classifyCode(lines: readonly string[], language: SourceLanguage | undefined): LineKind[] {
  if (language?.name === 'python') return classifyLines(lines)
  const areTypes = language?.name === 'typescript' ? listTypeLines(lines.map((line) => line.slice(1))) : []
  const hasBlockComments = language === undefined || language.comments.endsWith('slashes')
  return lines.map((line, at) => (areTypes[at] || (hasBlockComments && COMMENT_LINE.test(line)) ? 'other' : 'code'))
}

type RenderVariant = (run: ChangeRun, lines: readonly string[]) => string

const readLines = ({ hunk, from, to }: ChangeRun): string[] => hunk.lines.slice(from, to)
const listRemovedLines = (run: ChangeRun): string[] => readLines(run).filter((line) => line.startsWith('-'))

function omitRun(run: NumberedRun, render: RenderVariant): SolutionVariant {
  const restored = listRemovedLines(run).map((line) => ` ${line.slice(1)}`)
  const added = readLines(run).filter((line) => line.startsWith('+'))
  return {
    kind: 'part',
    path: run.file.path,
    line: toLineNumber(run, run.from),
    before: shorten(added),
    after: shorten(restored),
    edit: run.edit,
    patch: render(run, restored),
  }
}

/** Alters the added lines of a run, one at a time. */
function mutateRun(run: NumberedRun, render: RenderVariant): BuildVariant[] {
  const lines = readLines(run)
  const at = lines.findIndex((line) => line.startsWith('+'))
  if (at < 0) return []
  const added = lines.slice(at).map((line) => line.slice(1))
  // Strings often contain another language.
  const isCode = ({ from }: { from: number }) => run.hunk.kinds['+'][run.from + at + from] === 'code'
  const mutations = listMutations(added, run.file.language?.name ?? '').filter(isCode)
  return mutations.map(({ from, to, replacement }) => () => {
    const altered = [...added.slice(0, from), ...replacement, ...added.slice(to)].map((line) => `+${line}`)
    return {
      kind: 'mutant',
      path: run.file.path,
      line: toLineNumber(run, run.from + at + from),
      before: shorten(lines.slice(at + from, at + to)),
      after: shorten(replacement.map((line) => `+${line}`)),
      edit: run.edit,
      patch: render(run, [...lines.slice(0, at), ...altered]),
    }
  })
}

/** Returns the line number after the change of the line at an index of the hunk. */
const toLineNumber = ({ hunk }: ChangeRun, at: number): number =>
  hunk.newStart + hunk.lines.slice(0, at).filter((line) => line.startsWith(' ') || line.startsWith('+')).length

const SHOWN_LENGTH_MAX = 600

const shorten = (lines: readonly string[]): string =>
  decodeText(lines.map((line) => line.slice(1)).join('\n'))
    .slice(0, SHOWN_LENGTH_MAX)
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

import {
  Copy,
  DockerfileParser,
  type Heredoc as HeredocNode,
  type Instruction as InstructionNode,
  ModifiableInstruction,
  PropertyInstruction,
  Run,
} from 'dockerfile-ast'
import { createReport, type Report } from './report.ts'

/** A parsed Dockerfile. Variables are not expanded, since their values are known only during the build. */
export type Dockerfile = {
  /** ARG instructions before the first FROM. */
  globals: DockerfileInstruction[]
  stages: DockerfileStage[]
}

export type DockerfileStage = {
  image: string
  name: string | null
  platform: string | null
  line: number
  instructions: DockerfileInstruction[]
}

export type DockerfileInstruction = {
  /** Upper case, for example RUN. */
  keyword: string
  /** Line number, starting at 1. */
  line: number
  lastLine: number
  flags: { name: string; value: string | null }[]
  /** Arguments without flags, comments and here-documents; continued lines are joined. */
  text: string
  /** Words of the JSON (exec) form. */
  exec: string[] | null
  /** Name-value pairs of ARG, ENV and LABEL. */
  pairs: { name: string; value: string | null }[]
  heredocs: Heredoc[]
}

/** A here-document. `isExpanded` means that its delimiter is not quoted, so variables are replaced. */
type Heredoc = { name: string; content: string; isExpanded: boolean }

/** Parses a Dockerfile. Throws TaskInvalid. */
export function readDockerfile(text: string): Dockerfile {
  const report = createReport()
  const dockerfile = parseDockerfile(text, 'Dockerfile', report)
  report.throwIfRefused()
  return dockerfile
}

const LINES_MAX = 3000
const FLAGS_MAX = 1000
/** Bounds the time of the parser, which searches for the end of each variable in all of the remaining text. */
const BRACED_VARIABLES_MAX = 1000

export function parseDockerfile(text: string, path: string, report: Report): Dockerfile {
  const lines = text.split('\n')
  if (lines.length > LINES_MAX || text.split('--').length > FLAGS_MAX) {
    report.refuse(path, 'too_complex', `A Dockerfile may have at most ${LINES_MAX} lines and ${FLAGS_MAX} flags.`)
    return { globals: [], stages: [] }
  }
  if (text.split('${').length > BRACED_VARIABLES_MAX) {
    report.refuse(path, 'too_complex', `A Dockerfile may have at most ${BRACED_VARIABLES_MAX} variables in braces.`)
    return { globals: [], stages: [] }
  }
  const normalised = normaliseHeredocs(lines)
  const parsed = DockerfileParser.parse(normalised.join('\n'))
  const escapeMark = parsed.getEscapeCharacter()
  const instructions = parsed.getInstructions().map((node) => toInstruction(node, { lines, normalised }, escapeMark))
  const dockerfile = groupStages(instructions)
  checkDockerfile(dockerfile, path, report)
  if (measureExpansion(dockerfile) > EXPANDED_LENGTH_MAX) {
    report.refuse(path, 'too_complex', `Variables expand to more than ${EXPANDED_LENGTH_MAX} characters.`)
    return { globals: [], stages: [] }
  }
  return dockerfile
}

/** The original lines, and the lines that were passed to the parser. */
type DockerfileLines = { lines: string[]; normalised: string[] }

const SPACED_HEREDOC = /<<(-?)[ \t]+(?=(["']?)([A-Za-z_]\w*)\2(?!\w))/g

/** Removes the spaces in `<< EOF`, which Docker allows and the parser does not, if a later line is the delimiter. */
function normaliseHeredocs(lines: string[]): string[] {
  const lastIndex = new Map(lines.map((line, index) => [line.trim(), index]))
  const joinMarker = (index: number) => (whole: string, dash: string, _: string, name: string) =>
    (lastIndex.get(name) ?? -1) > index ? `<<${dash}` : whole
  return lines.map((line, index) => (line.includes('<<') ? line.replaceAll(SPACED_HEREDOC, joinMarker(index)) : line))
}

const KEYWORDS = new Set(
  'ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR'.split(
    ' ',
  ),
)

function checkDockerfile({ globals, stages }: Dockerfile, path: string, report: Report): void {
  const unknown = [...globals, ...stages.flatMap(({ instructions }) => instructions)].find(
    ({ keyword }) => !KEYWORDS.has(keyword),
  )
  // Only the first is reported: the following are usually the rest of an unrecognised here-document.
  if (unknown) report.refuse(path, 'dockerfile_syntax', `Line ${unknown.line}: unknown instruction.`)
  for (const { keyword, line } of globals.filter((each) => each.keyword !== 'ARG' && KEYWORDS.has(each.keyword))) {
    report.refuse(path, 'dockerfile_syntax', `Line ${line}: ${keyword} must not come before FROM.`)
  }
  for (const { image, line } of stages) {
    if (image === '') report.refuse(path, 'dockerfile_syntax', `Line ${line}: FROM requires an image, and AS a name.`)
  }
  if (stages.length === 0) report.refuse(path, 'dockerfile_syntax', 'FROM is missing.')
}

function groupStages(instructions: DockerfileInstruction[]): Dockerfile {
  const dockerfile: Dockerfile = { globals: [], stages: [] }
  for (const instruction of instructions) {
    if (instruction.keyword === 'FROM') dockerfile.stages.push(toStage(instruction))
    else (dockerfile.stages.at(-1)?.instructions ?? dockerfile.globals).push(instruction)
  }
  return dockerfile
}

function toStage({ text, line, flags }: DockerfileInstruction): DockerfileStage {
  const [image = '', as, name = null, ...more] = text.split(/\s+/)
  const isValid = as === undefined || (as.toUpperCase() === 'AS' && name !== null && more.length === 0)
  const platform = flags.find((flag) => flag.name === 'platform')?.value ?? null
  return { image: isValid ? image : '', name, platform, line, instructions: [] }
}

function toInstruction(node: InstructionNode, lines: DockerfileLines, escapeMark: string): DockerfileInstruction {
  const { start, end } = node.getRange()
  const allHeredocs = node instanceof Run || node instanceof Copy ? node.getHeredocs() : []
  // The parser takes a left shift such as `1 << 2` for a here-document without a name.
  const heredocs = allHeredocs.filter((heredoc) => heredoc.getName() !== '')
  const raw = (node.getRawArgumentsContent() ?? '').split('\n')
  const opening = heredocs[0]?.getStartRange().start.line
  const text = joinLines(opening === undefined ? raw : raw.slice(0, opening - start.line + 1), escapeMark)
  const flags = node instanceof ModifiableInstruction ? node.getFlags() : []
  const properties = node instanceof PropertyInstruction ? node.getProperties() : []
  return {
    keyword: node.getKeyword(),
    line: start.line + 1,
    lastLine: end.line + 1,
    flags: flags.map((flag) => ({ name: flag.getName(), value: flag.getValue() })),
    text,
    exec: parseExecForm(text),
    pairs: properties.map((property) => ({ name: property.getName(), value: property.getValue() })),
    heredocs: heredocs.map((heredoc) => toHeredoc(heredoc, lines)),
  }
}

/** Returns the content of a here-document. `<<-` strips leading tabs; a quoted delimiter prevents expansion. */
function toHeredoc(node: HeredocNode, { lines, normalised }: DockerfileLines): Heredoc {
  const { start, end } = node.getStartRange()
  const opening = normalised[start.line]?.slice(start.character, end.character) ?? ''
  const first = node.getContentRange()?.start.line ?? 0
  const last = node.getDelimiterRange()?.start.line ?? lines.length
  const content = node.getContentRange() === null ? [] : lines.slice(first, last)
  const isIndented = opening.startsWith('<<-')
  return {
    name: node.getName(),
    content: content.map((line) => `${isIndented ? line.replace(/^\t+/, '') : line}\n`).join(''),
    isExpanded: !/["']/.test(opening),
  }
}

/** Joins continued lines. The parser's own joined text contains the comments between the lines. */
function joinLines([first = '', ...rest]: string[], escapeMark: string): string {
  const code = [first, ...rest.filter((line) => !/^\s*(#|$)/.test(line))]
  return code
    .map((line) => (line.trimEnd().endsWith(escapeMark) ? line.trimEnd().slice(0, -1) : line))
    .join('')
    .trim()
}

/** Parses the JSON form. The parser's own strings have lost their spaces. */
function parseExecForm(text: string): string[] | null {
  if (!text.startsWith('[')) return null
  try {
    const words: unknown = JSON.parse(text)
    return Array.isArray(words) && words.every((word) => typeof word === 'string') ? words : null
  } catch {
    return null // Docker too treats it as a shell command that begins with a bracket
  }
}

/** A source path of COPY or ADD in the build context. */
export type CopySource = { source: string; target: string; line: number }

/** Lists the source paths of COPY and ADD that come from the build context. */
export const listCopies = ({ stages }: Dockerfile): CopySource[] =>
  stages
    .flatMap(({ instructions }) => instructions)
    .filter(({ keyword }) => keyword === 'COPY' || keyword === 'ADD')
    .filter(({ flags }) => !flags.some(({ name }) => name === 'from'))
    .flatMap(toCopySources)

function toCopySources({ text, exec, line }: DockerfileInstruction): CopySource[] {
  const words = exec ?? text.split(/\s+/).map((word) => word.replace(/^["']|["']$/g, ''))
  const target = words.at(-1) ?? ''
  return words
    .slice(0, -1)
    .filter((word) => word !== '' && !word.startsWith('<<') && !/^[a-z+]{2,10}:\/\//.test(word))
    .map((source) => ({ source, target, line }))
}

/** Returns true if a COPY includes a path of the build context. */
export function copiesPath({ source }: CopySource, path: string): boolean {
  const wanted = source.split('/').filter((part) => part !== '' && part !== '.')
  const parts = path.split('/')
  return wanted.length <= parts.length && wanted.every((pattern, index) => matchesPattern(pattern, parts[index] ?? ''))
}

/** Compares only the text before the first and after the last wildcard, so it may match too much but not too little. */
function matchesPattern(pattern: string, text: string): boolean {
  const first = pattern.search(/[*?[\\]/)
  if (first < 0) return pattern === text
  const last = Math.max(...['*', '?', ']'].map((mark) => pattern.lastIndexOf(mark)))
  return text.startsWith(pattern.slice(0, first)) && text.endsWith(pattern.slice(last + 1))
}

/** Maximum number of characters of all values of a Dockerfile with their variables replaced. */
export const EXPANDED_LENGTH_MAX = 4 * 1024 * 1024

/** Instructions whose variables are left to a shell. */
const SHELL_INSTRUCTIONS = new Set(['RUN', 'CMD', 'ENTRYPOINT', 'HEALTHCHECK', 'SHELL', 'MAINTAINER'])

/**
 * Returns an upper bound of the characters that a build writes when it replaces variables. Values that contain each other
 * several times grow exponentially and would exhaust the memory of the builder. `args` are arguments of the build.
 */
export function measureExpansion({ globals, stages }: Dockerfile, args: Readonly<Record<string, string>> = {}): number {
  const lengths = new Map<string, number>()
  let total = 0
  for (const instruction of globals) total += measureInstruction(instruction, lengths, args)
  for (const { image, instructions } of stages) {
    total += measureText(image, lengths)
    for (const instruction of instructions) total += measureInstruction(instruction, lengths, args)
  }
  return total
}

type VariableLengths = Map<string, number>

function measureInstruction(
  { keyword, pairs, text, flags }: DockerfileInstruction,
  lengths: VariableLengths,
  args: Readonly<Record<string, string>>,
): number {
  if (SHELL_INSTRUCTIONS.has(keyword)) return 0
  const all = [text, ...flags.map(({ value }) => value ?? '')]
  const total = all.reduce((sum, each) => sum + measureText(each, lengths), 0)
  if (keyword !== 'ENV' && keyword !== 'ARG') return total
  for (const { name, value } of pairs) {
    const argumentLength = keyword === 'ARG' && Object.hasOwn(args, name) ? (args[name] ?? '').length : 0
    // The longest value counts, because stages are not followed.
    lengths.set(name, Math.max(lengths.get(name) ?? 0, measureText(value ?? '', lengths), argumentLength))
  }
  return total
}

const REFERENCE = /\$\{?(\w+)/g

const measureText = (text: string, lengths: VariableLengths): number =>
  text.matchAll(REFERENCE).reduce((sum, [, name = '']) => sum + (lengths.get(name) ?? 0), text.length)

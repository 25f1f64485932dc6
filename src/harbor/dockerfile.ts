import {
  Copy,
  DockerfileParser,
  type Heredoc as HeredocNode,
  type Instruction as InstructionNode,
  ModifiableInstruction,
  PropertyInstruction,
  Run,
} from 'dockerfile-ast'
import { newReport, type Report } from './report.ts'

/** A Dockerfile as a builder needs it. Variables are left in the texts: their values are known only in the build. */
export type Dockerfile = {
  /** ARG before the first FROM. */
  globals: Instruction[]
  stages: Stage[]
}

export type Stage = {
  image: string
  name: string | null
  platform: string | null
  line: number
  instructions: Instruction[]
}

export type Instruction = {
  /** Upper case, as RUN. */
  keyword: string
  /** The first line is 1. */
  line: number
  lastLine: number
  flags: { name: string; value: string | null }[]
  /** Without flags, comments and here-documents; continued lines are one. */
  text: string
  /** The words of the JSON form. */
  exec: string[] | null
  /** Of ARG, ENV and LABEL. */
  pairs: { name: string; value: string | null }[]
  heredocs: Heredoc[]
}

/** Expanded: variables in it are replaced, because its name is not quoted. */
type Heredoc = { name: string; content: string; isExpanded: boolean }

/** Throws TaskInvalid. */
export function readDockerfile(text: string, path = 'Dockerfile'): Dockerfile {
  const report = newReport()
  const dockerfile = parseDockerfile(text, path, report)
  report.check()
  return dockerfile
}

const LINES_MAX = 3000
const FLAGS_MAX = 1000

export function parseDockerfile(text: string, path: string, report: Report): Dockerfile {
  const lines = text.split('\n')
  if (lines.length > LINES_MAX || text.split('--').length > FLAGS_MAX) {
    report.refuse(path, 'too_complex', `A Dockerfile has ${LINES_MAX} lines and ${FLAGS_MAX} flags at most.`)
    return { globals: [], stages: [] }
  }
  const closed = withClosedHeredocs(lines)
  const parsed = DockerfileParser.parse(closed.join('\n'))
  const escapeMark = parsed.getEscapeCharacter()
  const instructions = parsed.getInstructions().map((node) => instructionOf(node, { lines, closed }, escapeMark))
  const dockerfile = stagesOf(instructions)
  check(dockerfile, path, report)
  return dockerfile
}

/** The lines as they are written, and as the parser sees them. */
type Lines = { lines: string[]; closed: string[] }

const SPACED_HEREDOC = /<<(-?)[ \t]+(?=(["']?)([A-Za-z_]\w*)\2(?!\w))/g

/** Docker lets spaces stand in `<< EOF`, the parser does not. Only where a later line is that word and ends it. */
function withClosedHeredocs(lines: string[]): string[] {
  const last = new Map(lines.map((line, place) => [line.trim(), place]))
  const close = (place: number) => (whole: string, dash: string, _: string, name: string) =>
    (last.get(name) ?? -1) > place ? `<<${dash}` : whole
  return lines.map((line, place) => (line.includes('<<') ? line.replaceAll(SPACED_HEREDOC, close(place)) : line))
}

const KEYWORDS = new Set(
  'ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME WORKDIR'.split(
    ' ',
  ),
)

function check({ globals, stages }: Dockerfile, path: string, report: Report): void {
  const unknown = [...globals, ...stages.flatMap(({ instructions }) => instructions)].find(
    ({ keyword }) => !KEYWORDS.has(keyword),
  )
  // Only the first: what follows is usually the rest of a here-document that has not been seen as one.
  if (unknown) report.refuse(path, 'dockerfile_syntax', `Line ${unknown.line}: there is no such instruction.`)
  for (const { keyword, line } of globals.filter((each) => each.keyword !== 'ARG' && KEYWORDS.has(each.keyword))) {
    report.refuse(path, 'dockerfile_syntax', `Line ${line}: ${keyword} comes before FROM.`)
  }
  for (const { image, line } of stages) {
    if (image === '')
      report.refuse(path, 'dockerfile_syntax', `Line ${line}: FROM needs an image, and a name after AS.`)
  }
  if (stages.length === 0) report.refuse(path, 'dockerfile_syntax', 'There is no FROM.')
}

function stagesOf(instructions: Instruction[]): Dockerfile {
  const dockerfile: Dockerfile = { globals: [], stages: [] }
  for (const instruction of instructions) {
    if (instruction.keyword === 'FROM') dockerfile.stages.push(stageOf(instruction))
    else (dockerfile.stages.at(-1)?.instructions ?? dockerfile.globals).push(instruction)
  }
  return dockerfile
}

function stageOf({ text, line, flags }: Instruction): Stage {
  const [image = '', as, name = null, ...more] = text.split(/\s+/)
  const isRight = as === undefined || (as.toUpperCase() === 'AS' && name !== null && more.length === 0)
  const platform = flags.find((flag) => flag.name === 'platform')?.value ?? null
  return { image: isRight ? image : '', name, platform, line, instructions: [] }
}

function instructionOf(node: InstructionNode, lines: Lines, escapeMark: string): Instruction {
  const { start, end } = node.getRange()
  const found = node instanceof Run || node instanceof Copy ? node.getHeredocs() : []
  const heredocs = found.filter((heredoc) => heredoc.getName() !== '') // a shift to the left is none
  const raw = (node.getRawArgumentsContent() ?? '').split('\n')
  const opening = heredocs[0]?.getStartRange().start.line
  const text = joined(opening === undefined ? raw : raw.slice(0, opening - start.line + 1), escapeMark)
  const flags = node instanceof ModifiableInstruction ? node.getFlags() : []
  const properties = node instanceof PropertyInstruction ? node.getProperties() : []
  return {
    keyword: node.getKeyword(),
    line: start.line + 1,
    lastLine: end.line + 1,
    flags: flags.map((flag) => ({ name: flag.getName(), value: flag.getValue() })),
    text,
    exec: execOf(text),
    pairs: properties.map((property) => ({ name: property.getName(), value: property.getValue() })),
    heredocs: heredocs.map((heredoc) => heredocOf(heredoc, lines)),
  }
}

/** `<<-` takes the tabs off, and a quoted name keeps the variables as they are. */
function heredocOf(node: HeredocNode, { lines, closed }: Lines): Heredoc {
  const { start, end } = node.getStartRange()
  const opening = closed[start.line]?.slice(start.character, end.character) ?? ''
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

/** The parser's own joined text keeps the comments between the lines. */
function joined([first = '', ...rest]: string[], escapeMark: string): string {
  const kept = [first, ...rest.filter((line) => !/^\s*(#|$)/.test(line))]
  return kept
    .map((line) => (line.trimEnd().endsWith(escapeMark) ? line.trimEnd().slice(0, -1) : line))
    .join('')
    .trim()
}

/** The parser's own strings have lost their spaces. */
function execOf(text: string): string[] | null {
  if (!text.startsWith('[')) return null
  try {
    const words: unknown = JSON.parse(text)
    return Array.isArray(words) && words.every((word) => typeof word === 'string') ? words : null
  } catch {
    return null // a shell command that begins with a bracket, which is what Docker takes it for
  }
}

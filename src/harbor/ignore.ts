/** A parsed ignore file. The last matching rule decides. */
export type IgnoreRules = {
  has(path: string): boolean
  /** Maximum number of steps to match one character of a path. */
  steps: number
}

/** Patterns that Harbor ignores in a task without .gitignore. */
const DEFAULT_PATTERNS = ['__pycache__/', '*.pyc', '.DS_Store', '*.swp', '*.swo', '*~']

export const defaultIgnoreRules = (): IgnoreRules => buildIgnoreRules(DEFAULT_PATTERNS)

/** Line ends that Python recognises. Lines with other control characters are refused. */
const LINE_ENDS = /\r\n|[\n\r\u2028\u2029]/
const CONTROL = /[^\P{Cc}\t]/u
const SPACE = /[^\S\uFEFF]/

/**
 * Parses a .gitignore as Harbor does, with pathspec's "gitignore" patterns. Unlike Git, these can re-include a file of an
 * ignored folder. Throws InvalidPattern. Patterns are untrusted, so they are not compiled to regular expressions, which
 * can backtrack exponentially: matching takes time linear in pattern length times path length.
 */
export const parseIgnoreFile = (text: string): IgnoreRules => buildIgnoreRules(text.split(LINE_ENDS))

export class InvalidPattern extends Error {
  override name = 'BadPattern'

  constructor(line: string) {
    super(`Invalid pattern in .gitignore: ${line.slice(0, 100)}`)
  }
}

type IgnoreRule = { ignores: boolean; pattern: IgnorePattern }

function buildIgnoreRules(lines: readonly string[]): IgnoreRules {
  const rules = lines.flatMap(parseRule)
  return {
    has: (path) => rules.findLast(({ pattern }) => matches(pattern, [...path]))?.ignores ?? false,
    steps: rules.reduce((sum, { pattern }) => sum + pattern.steps.length + 1, 0),
  }
}

function parseRule(line: string): IgnoreRule[] {
  if (CONTROL.test(line)) throw new InvalidPattern(line)
  const text = line.endsWith('\\ ') ? line : trimTrailingSpace(line)
  if (text === '' || text.startsWith('#')) return []
  const isNegated = text.startsWith('!')
  return [{ ignores: !isNegated, pattern: parsePattern(isNegated ? text.slice(1) : text, line) }]
}

function trimTrailingSpace(line: string): string {
  let end = line.length
  while (end > 0 && SPACE.test(line.charAt(end - 1))) end--
  return line.slice(0, end)
}

/** Matches one character of a path, any number of characters, or optionally skips the next steps. */
type PatternStep = { kind: 'one' | 'many'; takes: (character: string) => boolean } | { kind: 'skip'; steps: number }

/** `end` tells what may follow a match. `within`: anything. `whole`: nothing. `name`: nothing, or a slash. */
type IgnorePattern = { steps: PatternStep[]; end: 'within' | 'whole' | 'name' }

const any = () => true
const isSlash = (character: string) => character === '/'
const isNoSlash = (character: string) => character !== '/'
const SLASH: PatternStep = { kind: 'one', takes: isSlash }
const FOLDERS_BEFORE: PatternStep[] = [
  { kind: 'skip', steps: 3 },
  { kind: 'one', takes: any },
  { kind: 'many', takes: any },
  SLASH,
]
const FOLDERS_BETWEEN: PatternStep[] = [
  { kind: 'skip', steps: 3 },
  SLASH,
  { kind: 'one', takes: any },
  { kind: 'many', takes: any },
]
const EVERYTHING: IgnorePattern = { steps: [], end: 'within' }
const EVERYTHING_IN_FOLDERS: IgnorePattern = { steps: [{ kind: 'many', takes: any }, SLASH], end: 'within' }

function parsePattern(text: string, line: string): IgnorePattern {
  const isFolder = text.endsWith('/') && text !== '/'
  const segments = normaliseSegments(text.split('/'))
  if (segments.length === 0) throw new InvalidPattern(line)
  const shape = segments.join('/')
  if (shape === '**') return isFolder ? EVERYTHING_IN_FOLDERS : EVERYTHING
  if (shape === '**/*') return EVERYTHING
  if (shape === '**/*/**') return EVERYTHING_IN_FOLDERS
  return { steps: buildSteps(segments, line), end: findEnd(segments) }
}

/** Adds the `**` that is implied by a pattern without a slash or with a trailing slash. */
function normaliseSegments(segments: string[]): string[] {
  const isName = segments.length === 1 || (segments.length === 2 && segments[1] === '')
  const [first = '', ...rest] = segments
  const anchored = first === '' ? rest : isName && first !== '**' ? ['**', ...segments] : segments
  const closed = anchored.at(-1) === '' ? [...anchored.slice(0, -1), '**'] : anchored
  return closed.filter((segment, place) => segment !== '**' || closed[place - 1] !== '**')
}

function findEnd(segments: string[]): IgnorePattern['end'] {
  if (segments.at(-1) === '**') return 'within'
  return segments.at(-1) === '*' ? 'whole' : 'name'
}

const buildSteps = (segments: string[], line: string): PatternStep[] =>
  segments.flatMap((segment, place) => {
    if (segment === '**') return folderSteps(place, segments.length)
    const follows = place > 1 || (place === 1 && segments[0] !== '**')
    return [...(follows ? [SLASH] : []), ...segmentSteps(segment, line)]
  })

function folderSteps(place: number, count: number): PatternStep[] {
  if (place === 0) return FOLDERS_BEFORE
  return place === count - 1 ? [SLASH] : FOLDERS_BETWEEN
}

function segmentSteps(segment: string, line: string): PatternStep[] {
  if (segment === '*')
    return [
      { kind: 'one', takes: isNoSlash },
      { kind: 'many', takes: isNoSlash },
    ]
  const characters = [...segment]
  const steps: PatternStep[] = []
  for (let place = 0; place < characters.length; place++) {
    const { step, length } = parseStep(characters, place, line)
    steps.push(step)
    place += length - 1
  }
  return steps
}

function parseStep(characters: string[], place: number, line: string): { step: PatternStep; length: number } {
  const character = characters[place] ?? ''
  if (character === '*') return { step: { kind: 'many', takes: isNoSlash }, length: 1 }
  if (character === '?') return { step: { kind: 'one', takes: isNoSlash }, length: 1 }
  if (character === '[') return parseBracket(characters, place, line)
  if (character !== '\\') return { step: literal(character), length: 1 }
  const escaped = characters[place + 1]
  if (escaped === undefined) throw new InvalidPattern(line)
  return { step: literal(escaped), length: 2 }
}

const literal = (character: string): PatternStep => ({ kind: 'one', takes: (other) => other === character })

/** Parses `[a-z]`. As in pathspec, an unclosed bracket is literal, and a negated class matches a slash too. */
function parseBracket(characters: string[], place: number, line: string): { step: PatternStep; length: number } {
  const isNegated = characters[place + 1] === '!' || characters[place + 1] === '^'
  const start = place + (isNegated ? 2 : 1)
  const end = characters.indexOf(']', start + 1) // a leading ] is literal
  if (end < 0) return { step: literal('['), length: 1 }
  const ranges = parseRanges(characters.slice(start, end), line)
  const isListed = (character: string) =>
    ranges.some(([first, last]) => first <= codePointOf(character) && codePointOf(character) <= last)
  return {
    step: { kind: 'one', takes: (character) => isListed(character) !== isNegated },
    length: end - place + 1,
  }
}

const codePointOf = (character: string): number => character.codePointAt(0) ?? 0

function parseRanges(characters: string[], line: string): [number, number][] {
  const ranges: [number, number][] = []
  for (let place = 0; place < characters.length; place++) {
    const first = codePointOf(characters[place] ?? '')
    const isRange = characters[place + 1] === '-' && place + 2 < characters.length
    const last = isRange ? codePointOf(characters[place + 2] ?? '') : first
    if (last < first) throw new InvalidPattern(line)
    ranges.push([first, last])
    if (isRange) place += 2
  }
  return ranges
}

/** Simulates the pattern as a state machine, in one pass over the path. */
function matches({ steps, end }: IgnorePattern, path: string[]): boolean {
  const last = steps.length
  let places = addSkips(steps, new Uint8Array(last + 1).fill(1, 0, 1))
  for (const character of path) {
    if (places[last] && (end === 'within' || (end === 'name' && character === '/'))) return true
    places = addSkips(steps, advance(steps, places, character))
  }
  return places[last] === 1
}

function advance(steps: PatternStep[], places: Uint8Array, character: string): Uint8Array {
  const next = new Uint8Array(places.length)
  for (const [place, step] of steps.entries()) {
    if (!places[place] || step.kind === 'skip' || !step.takes(character)) continue
    next[step.kind === 'many' ? place : place + 1] = 1
  }
  return next
}

/** Adds the steps that are reachable without consuming a character. Skips only lead forward, so one pass is enough. */
function addSkips(steps: PatternStep[], places: Uint8Array): Uint8Array {
  for (const [place, step] of steps.entries()) {
    if (!places[place] || step.kind === 'one') continue
    places[place + 1] = 1
    if (step.kind === 'skip') places[place + 1 + step.steps] = 1
  }
  return places
}

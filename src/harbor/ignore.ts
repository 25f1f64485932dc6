/** The last rule that matches decides. */
export type Ignores = {
  has(path: string): boolean
  /** To match one character of a path takes as many steps at most. */
  steps: number
}

/** What Harbor leaves out of a task that has no .gitignore. */
const USUAL = ['__pycache__/', '*.pyc', '.DS_Store', '*.swp', '*.swo', '*~']

export const usualIgnores = (): Ignores => ignoresOf(USUAL)

/** Python breaks lines at more characters than these two; we take none of the others. */
const LINE_ENDS = /\r\n|[\n\r\u2028\u2029]/
const CONTROL = /[^\P{Cc}\t]/u
const SPACE = /[^\S\uFEFF]/

/**
 * Reads a .gitignore as Harbor does, by pathspec's pattern "gitignore": the documented rules, which differ from Git's
 * own in that a file can be taken back from an ignored folder. Throws BadPattern. A rule is matched in time linear in
 * its length times the length of the path: it comes from a stranger, and a regular expression could take for ever.
 */
export const readIgnores = (text: string): Ignores => ignoresOf(text.split(LINE_ENDS))

export class BadPattern extends Error {
  override name = 'BadPattern'

  constructor(line: string) {
    super(`This line of .gitignore is no pattern: ${line.slice(0, 100)}`)
  }
}

type Rule = { ignores: boolean; pattern: Pattern }

function ignoresOf(lines: readonly string[]): Ignores {
  const rules = lines.flatMap(ruleOf)
  return {
    has: (path) => rules.findLast(({ pattern }) => matches(pattern, [...path]))?.ignores ?? false,
    steps: rules.reduce((sum, { pattern }) => sum + pattern.steps.length + 1, 0),
  }
}

function ruleOf(line: string): Rule[] {
  if (CONTROL.test(line)) throw new BadPattern(line)
  const text = line.endsWith('\\ ') ? line : withoutTrailingSpace(line)
  if (text === '' || text.startsWith('#')) return []
  const isTakenBack = text.startsWith('!')
  return [{ ignores: !isTakenBack, pattern: patternOf(isTakenBack ? text.slice(1) : text, line) }]
}

function withoutTrailingSpace(line: string): string {
  let end = line.length
  while (end > 0 && SPACE.test(line.charAt(end - 1))) end--
  return line.slice(0, end)
}

/** One character of a path, any number of them, or leave to go over the next steps. */
type Step = { kind: 'one' | 'many'; takes: (character: string) => boolean } | { kind: 'skip'; steps: number }

/** `within`: what comes after does not matter. `whole`: nothing may come after. `name`: nothing, or a slash. */
type Pattern = { steps: Step[]; end: 'within' | 'whole' | 'name' }

const any = () => true
const isSlash = (character: string) => character === '/'
const isNoSlash = (character: string) => character !== '/'
const SLASH: Step = { kind: 'one', takes: isSlash }
const FOLDERS_BEFORE: Step[] = [
  { kind: 'skip', steps: 3 },
  { kind: 'one', takes: any },
  { kind: 'many', takes: any },
  SLASH,
]
const FOLDERS_BETWEEN: Step[] = [
  { kind: 'skip', steps: 3 },
  SLASH,
  { kind: 'one', takes: any },
  { kind: 'many', takes: any },
]
const EVERYTHING: Pattern = { steps: [], end: 'within' }
const EVERYTHING_IN_FOLDERS: Pattern = { steps: [{ kind: 'many', takes: any }, SLASH], end: 'within' }

function patternOf(text: string, line: string): Pattern {
  const isFolder = text.endsWith('/') && text !== '/'
  const segments = normalised(text.split('/'))
  if (segments.length === 0) throw new BadPattern(line)
  const shape = segments.join('/')
  if (shape === '**') return isFolder ? EVERYTHING_IN_FOLDERS : EVERYTHING
  if (shape === '**/*') return EVERYTHING
  if (shape === '**/*/**') return EVERYTHING_IN_FOLDERS
  return { steps: stepsOf(segments, line), end: endOf(segments) }
}

/** Says with `**` what a pattern without a slash, or with one at its end, leaves unsaid. */
function normalised(segments: string[]): string[] {
  const isName = segments.length === 1 || (segments.length === 2 && segments[1] === '')
  const [first = '', ...rest] = segments
  const anchored = first === '' ? rest : isName && first !== '**' ? ['**', ...segments] : segments
  const closed = anchored.at(-1) === '' ? [...anchored.slice(0, -1), '**'] : anchored
  return closed.filter((segment, place) => segment !== '**' || closed[place - 1] !== '**')
}

function endOf(segments: string[]): Pattern['end'] {
  if (segments.at(-1) === '**') return 'within'
  return segments.at(-1) === '*' ? 'whole' : 'name'
}

const stepsOf = (segments: string[], line: string): Step[] =>
  segments.flatMap((segment, place) => {
    if (segment === '**') return foldersAt(place, segments.length)
    const follows = place > 1 || (place === 1 && segments[0] !== '**')
    return [...(follows ? [SLASH] : []), ...segmentSteps(segment, line)]
  })

function foldersAt(place: number, count: number): Step[] {
  if (place === 0) return FOLDERS_BEFORE
  return place === count - 1 ? [SLASH] : FOLDERS_BETWEEN
}

function segmentSteps(segment: string, line: string): Step[] {
  if (segment === '*')
    return [
      { kind: 'one', takes: isNoSlash },
      { kind: 'many', takes: isNoSlash },
    ]
  const characters = [...segment]
  const steps: Step[] = []
  for (let place = 0; place < characters.length; place++) {
    const { step, length } = stepAt(characters, place, line)
    steps.push(step)
    place += length - 1
  }
  return steps
}

function stepAt(characters: string[], place: number, line: string): { step: Step; length: number } {
  const character = characters[place] ?? ''
  if (character === '*') return { step: { kind: 'many', takes: isNoSlash }, length: 1 }
  if (character === '?') return { step: { kind: 'one', takes: isNoSlash }, length: 1 }
  if (character === '[') return bracket(characters, place, line)
  if (character !== '\\') return { step: literal(character), length: 1 }
  const escaped = characters[place + 1]
  if (escaped === undefined) throw new BadPattern(line)
  return { step: literal(escaped), length: 2 }
}

const literal = (character: string): Step => ({ kind: 'one', takes: (other) => other === character })

/** `[a-z]`. Without its end it is a bracket; negated, it takes a slash too: both as pathspec does it. */
function bracket(characters: string[], place: number, line: string): { step: Step; length: number } {
  const isNegated = characters[place + 1] === '!' || characters[place + 1] === '^'
  const start = place + (isNegated ? 2 : 1)
  const end = characters.indexOf(']', start + 1) // a first ] stands for itself
  if (end < 0) return { step: literal('['), length: 1 }
  const ranges = rangesOf(characters.slice(start, end), line)
  const isListed = (character: string) =>
    ranges.some(([first, last]) => first <= order(character) && order(character) <= last)
  return {
    step: { kind: 'one', takes: (character) => isListed(character) !== isNegated },
    length: end - place + 1,
  }
}

const order = (character: string): number => character.codePointAt(0) ?? 0

function rangesOf(characters: string[], line: string): [number, number][] {
  const ranges: [number, number][] = []
  for (let place = 0; place < characters.length; place++) {
    const first = order(characters[place] ?? '')
    const isRange = characters[place + 1] === '-' && place + 2 < characters.length
    const last = isRange ? order(characters[place + 2] ?? '') : first
    if (last < first) throw new BadPattern(line)
    ranges.push([first, last])
    if (isRange) place += 2
  }
  return ranges
}

/** Goes through the path once, with all the steps that it could be at. */
function matches({ steps, end }: Pattern, path: string[]): boolean {
  const last = steps.length
  let places = withSkips(steps, new Uint8Array(last + 1).fill(1, 0, 1))
  for (const character of path) {
    if (places[last] && (end === 'within' || (end === 'name' && character === '/'))) return true
    places = withSkips(steps, advanced(steps, places, character))
  }
  return places[last] === 1
}

function advanced(steps: Step[], places: Uint8Array, character: string): Uint8Array {
  const next = new Uint8Array(places.length)
  for (const [place, step] of steps.entries()) {
    if (!places[place] || step.kind === 'skip' || !step.takes(character)) continue
    next[step.kind === 'many' ? place : place + 1] = 1
  }
  return next
}

/** All that can be reached without a character. Ways lead forward only, so once through is enough. */
function withSkips(steps: Step[], places: Uint8Array): Uint8Array {
  for (const [place, step] of steps.entries()) {
    if (!places[place] || step.kind === 'one') continue
    places[place + 1] = 1
    if (step.kind === 'skip') places[place + 1 + step.steps] = 1
  }
  return places
}

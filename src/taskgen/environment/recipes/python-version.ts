import type { TreeFacts } from '../../../grading/suite.ts'

/** Base images by the Python 3 that they have, the usual one first. */
const BASES = [
  { minor: 13, base: 'debian:trixie-slim' },
  { minor: 11, base: 'debian:bookworm-slim' },
] as const

/** The base whose Python a tree takes. Where it takes none of them, the usual one: its tests will tell. */
export function pythonBase({ texts }: TreeFacts, required: string | undefined): string {
  const named = /^(?:cpython-?)?(3\.\d+)/m.exec(texts.get('.python-version') ?? '')?.[1]
  const wanted = named ? `==${named}` : (required ?? '')
  return (BASES.find(({ minor }) => accepts(wanted, minor)) ?? BASES[0]).base
}

const CLAUSE = /^(\^|~=|~|[<>=!]=|<|>)?\s*3\.(\d+)(?:\.(\d+|\*))?$/

type Takes = (minor: number, line: number, patch: string | undefined) => boolean

const notBelow: Takes = (minor, line) => minor >= line
const onLine: Takes = (minor, line) => minor === line

const SIGNS: Readonly<Record<string, Takes>> = {
  ...{ '>=': notBelow, '>': notBelow, '^': notBelow, '==': onLine, '~': onLine },
  '<=': (minor, line) => minor <= line,
  '<': (minor, line, patch = '0') => (patch === '0' ? minor < line : minor <= line),
  '!=': (minor, line, patch) => patch !== '*' || minor !== line,
  '~=': (minor, line, patch) => (patch === undefined ? minor >= line : minor === line),
}

/** Whether `>=3.9,<3.13` and the like take a minor version. A clause that cannot be read says nothing. */
const accepts = (range: string, minor: number): boolean =>
  range.split(',').every((clause) => {
    const [, sign = '==', line, patch] = CLAUSE.exec(clause.trim()) ?? []
    return line === undefined || SIGNS[sign]?.(minor, Number(line), patch)
  })

import { type Alias, isAlias, isMap, isScalar, isSeq, parseDocument, type Scalar, type YAMLMap } from 'yaml'
import { isTable, type Value, type ValueTable } from './fields.ts'
import { DEPTH_MAX } from './limits.ts'
import type { Report } from './report.ts'

/** The parser's time grows with these, in places with their square. */
const MARKS = new Set([...'\n\\:-[]{},&*!?\'"|>%@#'].map((mark) => mark.charCodeAt(0)))
const MARKS_MAX = 4000
const LINES_MAX = 2000
/** With every alias written out. */
const NODES_MAX = 10_000

/**
 * The value in a YAML text; every scalar is the text that was written, and nothing is null. Undefined when it is none;
 * the report has the reason.
 */
export function parseYaml(text: string, path: string, report: Report): Value | undefined {
  if (isTooBusy(text)) {
    report.refuse(path, 'too_complex', `It has more than ${LINES_MAX} lines, or too many marks.`)
    return undefined
  }
  const document = parseDocument(text, {
    schema: 'failsafe',
    uniqueKeys: false,
    prettyErrors: false,
    logLevel: 'error',
  })
  const [error] = document.errors
  if (error) {
    report.refuse(path, 'yaml_syntax', `Line ${lineAt(text, error.pos[0])}: ${error.message.slice(0, 200)}`)
    return undefined
  }
  try {
    return newReader((alias) => alias.resolve(document))(document.contents, 1)
  } catch (cause) {
    if (!(cause instanceof Unreadable)) throw cause
    report.refuse(path, cause.code, cause.message)
    return undefined
  }
}

function isTooBusy(text: string): boolean {
  let marks = 0
  let lines = 0
  for (let place = 0; place < text.length; place++) {
    if (MARKS.has(text.charCodeAt(place))) marks++
    if (text.charCodeAt(place) === 0x0a) lines++
  }
  return marks > MARKS_MAX || lines > LINES_MAX
}

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length

class Unreadable extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

const ALIASES_MAX = 100

type Read = (node: unknown, depth: number) => Value

function newReader(resolve: (alias: Alias) => unknown): Read {
  let nodes = 0
  let aliases = 0
  const read: Read = (node, depth) => {
    if (++nodes > NODES_MAX) throw new Unreadable('too_complex', `It has more than ${NODES_MAX} values.`)
    if (depth > DEPTH_MAX) throw new Unreadable('too_deep', `Tables and lists stand more than ${DEPTH_MAX} deep.`)
    return isAlias(node) ? readAlias(node, depth) : readNode(node, depth, read)
  }
  const readAlias = (alias: Alias, depth: number): Value => {
    if (++aliases > ALIASES_MAX) throw new Unreadable('too_complex', `It has more than ${ALIASES_MAX} aliases.`)
    const target = resolve(alias)
    if (target === undefined) throw new Unreadable('yaml_syntax', `There is no anchor ${alias.source.slice(0, 50)}.`)
    return read(target, depth + 1)
  }
  return read
}

function readNode(node: unknown, depth: number, read: Read): Value {
  if (isScalar(node)) return scalarOf(node)
  if (isMap(node)) return tableOf(node, depth, read)
  return isSeq(node) ? node.items.map((entry) => read(entry, depth + 1)) : null
}

const NULLS = new Set(['', '~', 'null', 'Null', 'NULL'])

function scalarOf({ value, type, tag }: Scalar): Value {
  if (tag !== undefined) throw new Unreadable('unsupported_tag', `We do not read the tag ${tag.slice(0, 50)}.`)
  if (typeof value !== 'string') return null
  return type === 'PLAIN' && NULLS.has(value) ? null : value
}

function tableOf(map: YAMLMap, depth: number, read: Read): ValueTable {
  if (map.tag !== undefined) throw new Unreadable('unsupported_tag', `We do not read the tag ${map.tag.slice(0, 50)}.`)
  const own = new Map<string, Value>()
  const merged = new Map<string, Value>()
  for (const { key, value } of map.items) {
    if (!isScalar(key) || typeof key.value !== 'string') throw new Unreadable('yaml_syntax', 'A key must be a text.')
    const found = read(value, depth + 1)
    if (key.value === '<<') merge(found, merged)
    else if (own.has(key.value)) throw new Unreadable('duplicate', `The key ${key.value.slice(0, 50)} comes twice.`)
    else own.set(key.value, found)
  }
  // fromEntries makes a key __proto__ an ordinary key.
  return Object.fromEntries([...merged, ...own])
}

/** `<<: *defaults`, or a list of them, of which earlier ones win. */
function merge(value: Value, into: Map<string, Value>): void {
  for (const table of Array.isArray(value) ? value : [value]) {
    if (!isTable(table)) throw new Unreadable('yaml_syntax', 'Only tables can be merged with <<.')
    for (const [key, inner] of Object.entries(table)) if (!into.has(key)) into.set(key, inner)
  }
}

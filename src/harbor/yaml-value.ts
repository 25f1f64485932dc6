import { type Alias, isAlias, isMap, isScalar, isSeq, parseDocument, type Scalar, type YAMLMap } from 'yaml'
import { isTable, type Value, type ValueTable } from './fields.ts'
import { NESTING_MAX } from './limits.ts'
import type { Report } from './report.ts'

/** Characters that determine the parsing time, which is partly quadratic in their number. */
const MARKS = new Set([...'\n\\:-[]{},&*!?\'"|>%@#'].map((mark) => mark.charCodeAt(0)))
const MARKS_MAX = 4000
const LINES_MAX = 2000
/** Maximum number of nodes after expanding aliases. */
const NODES_MAX = 10_000

/**
 * Parses YAML. Every scalar is the string that was written, except null values. Returns undefined, with a refusal in the
 * report, if it is invalid.
 */
export function parseYaml(text: string, path: string, report: Report): Value | undefined {
  if (isTooComplex(text)) {
    report.refuse(
      path,
      'too_complex',
      `The file has more than ${LINES_MAX} lines or ${MARKS_MAX} punctuation marks of YAML.`,
    )
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
    return createReader((alias) => alias.resolve(document))(document.contents, 1)
  } catch (cause) {
    if (!(cause instanceof UnreadableYaml)) throw cause
    report.refuse(path, cause.code, cause.message)
    return undefined
  }
}

function isTooComplex(text: string): boolean {
  let marks = 0
  let lines = 0
  for (let index = 0; index < text.length; index++) {
    if (MARKS.has(text.charCodeAt(index))) marks++
    if (text.charCodeAt(index) === 0x0a) lines++
  }
  return marks > MARKS_MAX || lines > LINES_MAX
}

const lineAt = (text: string, offset: number): number => text.slice(0, offset).split('\n').length

class UnreadableYaml extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

const ALIASES_MAX = 100

type NodeReader = (node: unknown, depth: number) => Value

function createReader(resolve: (alias: Alias) => unknown): NodeReader {
  let nodes = 0
  let aliases = 0
  const read: NodeReader = (node, depth) => {
    if (++nodes > NODES_MAX) throw new UnreadableYaml('too_complex', `The file has more than ${NODES_MAX} values.`)
    if (depth > NESTING_MAX)
      throw new UnreadableYaml('too_deep', `Tables and lists are nested more than ${NESTING_MAX} levels deep.`)
    return isAlias(node) ? readAlias(node, depth) : readNode(node, depth, read)
  }
  const readAlias = (alias: Alias, depth: number): Value => {
    if (++aliases > ALIASES_MAX)
      throw new UnreadableYaml('too_complex', `The file has more than ${ALIASES_MAX} aliases.`)
    const target = resolve(alias)
    if (target === undefined) throw new UnreadableYaml('yaml_syntax', `Unknown anchor ${alias.source.slice(0, 50)}.`)
    return read(target, depth + 1)
  }
  return read
}

function readNode(node: unknown, depth: number, read: NodeReader): Value {
  if (isScalar(node)) return readScalar(node)
  if (isMap(node)) return readTable(node, depth, read)
  return isSeq(node) ? node.items.map((entry) => read(entry, depth + 1)) : null
}

const NULLS = new Set(['', '~', 'null', 'Null', 'NULL'])

function readScalar({ value, type, tag }: Scalar): Value {
  if (tag !== undefined) throw new UnreadableYaml('unsupported_tag', `Unsupported tag ${tag.slice(0, 50)}.`)
  if (typeof value !== 'string') return null
  return type === 'PLAIN' && NULLS.has(value) ? null : value
}

function readTable(map: YAMLMap, depth: number, read: NodeReader): ValueTable {
  if (map.tag !== undefined) throw new UnreadableYaml('unsupported_tag', `Unsupported tag ${map.tag.slice(0, 50)}.`)
  const own = new Map<string, Value>()
  const merged = new Map<string, Value>()
  for (const { key, value } of map.items) {
    if (!isScalar(key) || typeof key.value !== 'string')
      throw new UnreadableYaml('yaml_syntax', 'A key must be a string.')
    const parsedValue = read(value, depth + 1)
    if (key.value === '<<') addMerged(parsedValue, merged)
    else if (own.has(key.value)) throw new UnreadableYaml('duplicate', `Duplicate key ${key.value.slice(0, 50)}.`)
    else own.set(key.value, parsedValue)
  }
  // fromEntries makes a key __proto__ an ordinary key.
  return Object.fromEntries([...merged, ...own])
}

/** Merges `<<: *defaults`, or a list of such tables, where earlier ones take precedence. */
function addMerged(value: Value, into: Map<string, Value>): void {
  for (const table of Array.isArray(value) ? value : [value]) {
    if (!isTable(table)) throw new UnreadableYaml('yaml_syntax', 'Only mappings can be merged with <<.')
    for (const [key, inner] of Object.entries(table)) if (!into.has(key)) into.set(key, inner)
  }
}

import { listOf, objectOf, textOf } from '../../src/gateway/protocols/fields.ts'
import type { Json, JsonObject } from '../../src/harnesses/json.ts'
import type { MockToolCall, Tool } from './conversation.ts'

// Names of shell tools in agent programs, most reliable first.
const SHELLS = [/^(exec_command|shell_command|local_shell)$/, /^bash$/i, /^(run_)?shell(_command)?$/i]
const MAYBE_SHELLS = [
  /^(run|execute)_?(terminal_?)?(command|cmd)s?$/i,
  /^(terminal|execute)$/i,
  /shell|bash|terminal|command/i,
]

const LINE_FIELDS = ['command', 'cmd', 'commands', 'script', 'line']

/** Builds the call that runs a shell command with one of the offered tools, or null if none can. */
export function shellCall(tools: readonly Tool[], line: string): MockToolCall | null {
  // A tool that executes code in which the other tools are functions.
  const code = tools.find(({ kind, name }) => kind === 'custom' && name === 'exec')
  const shell = [...SHELLS, ...MAYBE_SHELLS].map((name) => tools.find((tool) => isShell(tool, name))).find(Boolean)
  if (shell) return { tool: shell, input: argumentsOf(shell, line) }
  return code ? { tool: code, input: codeOf(line) } : null
}

/** Builds the call of another tool, or null if the program offers none of that name. */
export function namedCall(tools: readonly Tool[], end: string, input: JsonObject): MockToolCall | null {
  const tool = tools.find(({ name }) => name.endsWith(end))
  if (tool) return { tool, input }
  // Some programs load tools only after a search.
  const search = tools.find(({ kind }) => kind === 'tool_search')
  return search ? { tool: search, input: { query: end.replaceAll('_', ' '), limit: 5 } } : null
}

const WORD_LENGTH_MAX = 200

/** Escapes text for use between quotes in a shell command. */
export const filledLine = (line: string, result: string): string =>
  line.replaceAll('{result}', result.replaceAll(/[^\w .-]/g, '').slice(0, WORD_LENGTH_MAX))

const isShell = ({ name, kind, schema }: Tool, wanted: RegExp): boolean =>
  wanted.test(name) && (kind === 'local_shell' || lineField(schema) !== undefined)

const lineField = (schema: JsonObject): string | undefined =>
  LINE_FIELDS.find((field) => objectOf(schema.properties)[field] !== undefined)

const codeOf = (line: string): string =>
  `const done = await tools.exec_command({cmd: ${JSON.stringify(line)}});\ntext(done.output ?? JSON.stringify(done));\n`

function argumentsOf({ kind, schema }: Tool, line: string): JsonObject {
  if (kind === 'local_shell') return { command: ['bash', '-lc', line] }
  const properties = objectOf(schema.properties)
  const field = lineField(schema) ?? 'command'
  const required = listOf(schema.required).flatMap((name) => textOf(name) ?? [])
  const others = required.filter((name) => name !== field).map((name) => [name, anyValue(objectOf(properties[name]))])
  return { ...Object.fromEntries(others), [field]: lineAs(field, objectOf(properties[field]), line) }
}

function lineAs(field: string, schema: JsonObject, line: string): Json {
  if (typeOf(schema) !== 'array') return line
  return field === 'commands' ? [line] : ['bash', '-lc', line]
}

/** Returns any value that is valid for the schema. */
function anyValue(schema: JsonObject): Json {
  if (schema.default !== undefined) return schema.default
  const first = listOf(schema.enum)[0]
  if (first !== undefined) return first
  const values: Record<string, Json> = { boolean: false, integer: 10_000, number: 10_000, array: [], object: {} }
  return values[typeOf(schema)] ?? 'as the task says'
}

function typeOf({ type, anyOf }: JsonObject): string {
  const named = Array.isArray(type) ? type.find((each) => each !== 'null') : type
  return (textOf(named) ?? textOf(objectOf(listOf(anyOf)[0]).type) ?? 'string').toLowerCase()
}

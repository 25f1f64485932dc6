import { listOf, objectOf, textOf } from '../../src/gateway/protocols/fields.ts'
import type { Json, JsonObject } from '../../src/harnesses/json.ts'
import type { Call, Tool } from './conversation.ts'

// What programs call the tool that runs a line of shell, the surest first.
const SHELLS = [/^(exec_command|shell_command|local_shell)$/, /^bash$/i, /^(run_)?shell(_command)?$/i]
const MAYBE_SHELLS = [
  /^(run|execute)_?(terminal_?)?(command|cmd)s?$/i,
  /^(terminal|execute)$/i,
  /shell|bash|terminal|command/i,
]

const LINE_FIELDS = ['command', 'cmd', 'commands', 'script', 'line']

/** The call that runs a line of shell with one of the tools that a program offers. Null: none of them can. */
export function shellCall(tools: readonly Tool[], line: string): Call | null {
  // A tool that takes code, in which the other tools are functions.
  const code = tools.find(({ kind, name }) => kind === 'custom' && name === 'exec')
  const shell = [...SHELLS, ...MAYBE_SHELLS].map((name) => tools.find((tool) => isShell(tool, name))).find(Boolean)
  if (shell) return { tool: shell, input: argumentsOf(shell, line) }
  return code ? { tool: code, input: codeOf(line) } : null
}

/** Any other tool of the program. Null: it has none of that name. */
export function namedCall(tools: readonly Tool[], end: string, input: JsonObject): Call | null {
  const tool = tools.find(({ name }) => name.endsWith(end))
  if (tool) return { tool, input }
  // Some programs keep tools back until they are looked for.
  const search = tools.find(({ kind }) => kind === 'tool_search')
  return search ? { tool: search, input: { query: end.replaceAll('_', ' '), limit: 5 } } : null
}

const WORD_LENGTH_MAX = 200

/** As it can stand between quotes in a line of shell. */
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

/** A value that the schema takes. What it means does not matter to the line. */
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

import { isObject, type Json, type JsonObject, parseJson } from './json.ts'
import type { Moment } from './trajectory.ts'

/** Names of members, with dots between them. */
type Path = string
/** What stands at some paths. All must be so. */
type Condition = Record<Path, string | number | boolean>

/** Which lines of a program's output tell of its work, and where in them it stands. */
export type Rule = {
  when: Condition
  /** A list in the line. The rule then speaks of its members, one by one, of those that are `where`. */
  each?: Path | undefined
  where: Condition
} & Tells

type Tells =
  | { tells: 'message' | 'thought'; text: Path }
  | { tells: 'call'; id: Path; name: Path; arguments?: Path | undefined }
  | { tells: 'result'; id: Path; text: Path }
  | { tells: 'turn' }

/** An agent can write a lot into one line, and whoever reads it does nothing else meanwhile. */
const MEMBERS_MAX = 1000

/** What a line tells, by all rules in their order. It never fails, whatever the line is. */
export const momentsBy =
  (rules: readonly Rule[]) =>
  (line: JsonObject): Moment[] =>
    rules.flatMap((rule) => (holds(rule.when, line) ? membersOf(rule, line).flatMap((found) => told(rule, found)) : []))

function membersOf({ each, where }: Rule, line: JsonObject): JsonObject[] {
  if (each === undefined) return holds(where, line) ? [line] : []
  const list = at(line, each)
  if (!Array.isArray(list)) return []
  return list
    .slice(0, MEMBERS_MAX)
    .filter(isObject)
    .filter((member) => holds(where, member))
}

const holds = (condition: Condition, from: JsonObject): boolean =>
  Object.entries(condition).every(([path, value]) => at(from, path) === value)

/** Undefined: there is nothing. Only what was written there is, and nothing that every object has. */
function at(from: JsonObject, path: Path): Json | undefined {
  let found: Json | undefined = from
  for (const name of path.split('.')) {
    if (!isObject(found) || !Object.hasOwn(found, name)) return undefined
    found = found[name]
  }
  return found
}

function told(rule: Rule, from: JsonObject): Moment[] {
  if (rule.tells === 'turn') return [{ kind: 'turn' }]
  if (rule.tells === 'call') {
    const [id, name] = [textOf(at(from, rule.id)), textOf(at(from, rule.name))]
    return name === '' ? [] : [{ kind: 'call', id, name, arguments: argumentsOf(rule.arguments, from) }]
  }
  const text = textOf(at(from, rule.text))
  if (rule.tells === 'result') return [{ kind: 'result', id: textOf(at(from, rule.id)), text }]
  return text === '' ? [] : [{ kind: rule.tells, text }]
}

/** Some programs write them as a text that is JSON. */
function argumentsOf(path: Path | undefined, from: JsonObject): JsonObject {
  const found = path === undefined ? undefined : at(from, path)
  if (isObject(found)) return found
  if (typeof found !== 'string') return {}
  const value = parseJson(found)
  return isObject(value) ? value : { text: found }
}

/** A text, or the texts of a list of parts, or else what it is. */
function textOf(value: Json | undefined): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  if (Array.isArray(value)) return value.slice(0, MEMBERS_MAX).map(textOf).join('')
  return isObject(value) && typeof value.text === 'string' ? value.text : JSON.stringify(value)
}

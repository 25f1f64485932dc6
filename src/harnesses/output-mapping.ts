import { isObject, type Json, type JsonObject, parseJson } from './json.ts'
import type { TrajectoryEvent } from './trajectory.ts'

/** Member names, separated by dots. */
type MemberPath = string
/** Values that must be present at these paths. */
type Condition = Record<MemberPath, string | number | boolean>

/** Maps matching output lines of a custom harness to trajectory events. */
export type OutputRule = {
  when: Condition
  /** Path of a list. The rule then applies to each of its elements that matches `where`. */
  each?: MemberPath | undefined
  where: Condition
} & RuleEvent

type RuleEvent =
  | { tells: 'message' | 'thought'; text: MemberPath }
  | { tells: 'call'; id: MemberPath; name: MemberPath; arguments?: MemberPath | undefined }
  | { tells: 'result'; id: MemberPath; text: MemberPath }
  | { tells: 'turn' }

/** Bounds the work per line, which is untrusted and parsed synchronously. */
const ELEMENTS_MAX = 1000

/** Builds a parser that applies all rules in order. The parser never throws. */
export const buildEventParser =
  (rules: readonly OutputRule[]) =>
  (line: JsonObject): TrajectoryEvent[] =>
    rules.flatMap((rule) =>
      matches(rule.when, line) ? listMatchingObjects(rule, line).flatMap((object) => toEvents(rule, object)) : [],
    )

/** Lists the objects that a rule applies to: the line itself, or elements of one of its lists. */
function listMatchingObjects({ each, where }: OutputRule, line: JsonObject): JsonObject[] {
  if (each === undefined) return matches(where, line) ? [line] : []
  const list = valueAt(line, each)
  if (!Array.isArray(list)) return []
  return list
    .slice(0, ELEMENTS_MAX)
    .filter(isObject)
    .filter((element) => matches(where, element))
}

const matches = (condition: Condition, from: JsonObject): boolean =>
  Object.entries(condition).every(([path, value]) => valueAt(from, path) === value)

/** Returns the value at a path, or undefined. Inherited properties are not read. */
function valueAt(from: JsonObject, path: MemberPath): Json | undefined {
  let value: Json | undefined = from
  for (const name of path.split('.')) {
    if (!isObject(value) || !Object.hasOwn(value, name)) return undefined
    value = value[name]
  }
  return value
}

function toEvents(rule: OutputRule, from: JsonObject): TrajectoryEvent[] {
  if (rule.tells === 'turn') return [{ kind: 'turn' }]
  if (rule.tells === 'call') {
    const [id, name] = [toText(valueAt(from, rule.id)), toText(valueAt(from, rule.name))]
    return name === '' ? [] : [{ kind: 'call', id, name, arguments: toArguments(rule.arguments, from) }]
  }
  const text = toText(valueAt(from, rule.text))
  if (rule.tells === 'result') return [{ kind: 'result', id: toText(valueAt(from, rule.id)), text }]
  return text === '' ? [] : [{ kind: rule.tells, text }]
}

/** Reads the arguments of a call, which some programs write as a JSON string. */
function toArguments(path: MemberPath | undefined, from: JsonObject): JsonObject {
  const value = path === undefined ? undefined : valueAt(from, path)
  if (isObject(value)) return value
  if (typeof value !== 'string') return {}
  const parsed = parseJson(value)
  return isObject(parsed) ? parsed : { text: value }
}

/** Converts a string, a list of parts, or any other JSON value to text. */
function toText(value: Json | undefined): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  if (Array.isArray(value)) return value.slice(0, ELEMENTS_MAX).map(toText).join('')
  return isObject(value) && typeof value.text === 'string' ? value.text : JSON.stringify(value)
}

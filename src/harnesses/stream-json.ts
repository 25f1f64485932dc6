import { type JsonObject, objectAt, objectsAt, textAt } from './json.ts'
import type { Moment } from './trajectory.ts'

/** What programs of this kind say with `--output-format stream-json`. */
export function streamJsonMoments(line: JsonObject): Moment[] {
  const parts = objectsAt(objectAt(line, 'message'), 'content')
  if (line.type === 'assistant') return parts.flatMap(spoken)
  return line.type === 'user' ? parts.flatMap(heard) : []
}

function spoken(part: JsonObject): Moment[] {
  if (part.type === 'text') return [{ kind: 'message', text: textAt(part, 'text') }]
  if (part.type === 'thinking') return [{ kind: 'thought', text: textAt(part, 'thinking') }]
  if (part.type !== 'tool_use') return []
  return [{ kind: 'call', id: textAt(part, 'id'), name: textAt(part, 'name'), arguments: objectAt(part, 'input') }]
}

function heard(part: JsonObject): Moment[] {
  if (part.type !== 'tool_result') return []
  const text =
    textAt(part, 'content') ||
    objectsAt(part, 'content')
      .map((each) => textAt(each, 'text'))
      .join('')
  return [{ kind: 'result', id: textAt(part, 'tool_use_id'), text }]
}

import { type JsonObject, objectAt, objectsAt, textAt } from './json.ts'
import type { TrajectoryEvent } from './trajectory.ts'

/** Parses a line of the format `--output-format stream-json`, which several programs share. */
export function parseStreamJson(line: JsonObject): TrajectoryEvent[] {
  const parts = objectsAt(objectAt(line, 'message'), 'content')
  if (line.type === 'assistant') return parts.flatMap(parseAssistantPart)
  return line.type === 'user' ? parts.flatMap(parseUserPart) : []
}

function parseAssistantPart(part: JsonObject): TrajectoryEvent[] {
  if (part.type === 'text') return [{ kind: 'message', text: textAt(part, 'text') }]
  if (part.type === 'thinking') return [{ kind: 'thought', text: textAt(part, 'thinking') }]
  if (part.type !== 'tool_use') return []
  return [{ kind: 'call', id: textAt(part, 'id'), name: textAt(part, 'name'), arguments: objectAt(part, 'input') }]
}

function parseUserPart(part: JsonObject): TrajectoryEvent[] {
  if (part.type !== 'tool_result') return []
  const text =
    textAt(part, 'content') ||
    objectsAt(part, 'content')
      .map((each) => textAt(each, 'text'))
      .join('')
  return [{ kind: 'result', id: textAt(part, 'tool_use_id'), text }]
}

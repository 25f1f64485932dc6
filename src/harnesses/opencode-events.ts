import { type JsonObject, objectAt, textAt } from './json.ts'
import type { TrajectoryEvent } from './trajectory.ts'

/** Parses the lines that OpenCode and its descendants print. */
export function parseOpencodeEvents(line: JsonObject): TrajectoryEvent[] {
  const part = objectAt(line, 'part')
  if (line.type === 'step_start') return [{ kind: 'turn' }]
  if (line.type === 'text') return [{ kind: 'message', text: textAt(part, 'text') }]
  if (line.type === 'reasoning') return [{ kind: 'thought', text: textAt(part, 'text') }]
  if (line.type !== 'tool_use') return []
  const state = objectAt(part, 'state')
  const id = textAt(part, 'callID')
  return [
    { kind: 'call', id, name: textAt(part, 'tool'), arguments: objectAt(state, 'input') },
    { kind: 'result', id, text: textAt(state, 'output') || textAt(state, 'error') },
  ]
}

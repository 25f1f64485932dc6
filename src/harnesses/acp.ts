import { readFileSync } from 'node:fs'
import { NODE } from './bundles/bundle.ts'
import { HOME } from './harness.ts'
import { type JsonObject, objectAt, textAt } from './json.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const CLIENT_PATH = '.assay/acp-client.mjs'

/** Returns the client of the Agent Client Protocol as a file in HOME. It runs with the Node of the bundle. */
export const acpClientFile = (): { path: string; text: string } => ({
  path: CLIENT_PATH,
  text: readFileSync(new URL('./acp-client.mjs', import.meta.url), 'utf8'),
})

/** Returns the command that runs an ACP agent with the instruction on standard input. `settings` are set in its session. */
export const acpCommand = (agent: readonly string[], settings: Record<string, string> = {}): string[] => [
  NODE,
  `${HOME}/${CLIENT_PATH}`,
  ...Object.entries(settings).flatMap(([name, value]) => ['--set', `${name}=${value}`]),
  '--',
  ...agent,
]

/** Parses the lines that the client prints. */
export function parseAcpEvents(line: JsonObject): TrajectoryEvent[] {
  if (line.type === 'message' || line.type === 'thought') {
    const event = { kind: line.type, text: textAt(line, 'text') } as const
    return line.type === 'message' ? [{ kind: 'turn' }, event] : [event]
  }
  if (line.type === 'call') {
    const name = textAt(line, 'name')
    return [{ kind: 'call', id: textAt(line, 'id'), name, arguments: objectAt(line, 'arguments') }]
  }
  return line.type === 'result' ? [{ kind: 'result', id: textAt(line, 'id'), text: textAt(line, 'text') }] : []
}

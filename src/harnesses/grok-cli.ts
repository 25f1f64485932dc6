import { nodeBundle, nodeCommand } from './bundles/bundle.ts'
import lock from './bundles/grok-cli.lock.json' with { type: 'json' }
import { buildChatHarness, requireArgument, toCallEvent } from './chat-program.ts'
import { type JsonObject, objectsAt, textAt } from './json.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const SCRIPT = 'node_modules/@vibe-kit/grok-cli/dist/index.js'

export const grokCli = buildChatHarness({
  id: 'grok-cli',
  name: 'Grok CLI',
  version: lock.version,
  bundle: nodeBundle('grok-cli', lock),
  start: ({ model, baseUrl, token }, instruction) => ({
    command: [...nodeCommand(SCRIPT), '-m', model, '-p', requireArgument('Grok CLI', instruction)],
    env: { GROK_API_KEY: token, GROK_BASE_URL: `${baseUrl}/v1` },
    files: [],
    input: '',
  }),
  trajectoryEvents,
})

function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  if (line.role === 'tool') return [{ kind: 'result', id: textAt(line, 'tool_call_id'), text: textAt(line, 'content') }]
  if (line.role !== 'assistant') return []
  return [
    { kind: 'turn' },
    { kind: 'message', text: textAt(line, 'content') },
    ...objectsAt(line, 'tool_calls').map(toCallEvent),
  ]
}

import { BUNDLE, nativeBundle } from './bundles/bundle.ts'
import lock from './bundles/cline.lock.json' with { type: 'json' }
import { buildChatHarness, requireArgument } from './chat-program.ts'
import { type JsonObject, objectAt, textAt } from './json.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const PROGRAM = 'program/bin/cline'
const PROVIDER = 'openai-compatible'
const GLOBAL_SETTINGS = { telemetryOptOut: true, autoUpdateEnabled: false }

export const cline = buildChatHarness({
  id: 'cline',
  name: 'Cline',
  version: lock.version,
  bundle: nativeBundle('cline', lock, PROGRAM),
  start({ model, baseUrl, token }, instruction) {
    const settings = { provider: PROVIDER, apiKey: token, model, baseUrl: `${baseUrl}/v1` }
    const providers = {
      version: 1,
      lastUsedProvider: PROVIDER,
      modes: {},
      providers: { [PROVIDER]: { settings, updatedAt: '2026-01-01T00:00:00.000Z', tokenSource: 'manual' } },
    }
    return {
      command: [
        ...[`${BUNDLE}/${PROGRAM}`, '--json', '--auto-approve', 'true', '--provider', PROVIDER, '--model', model],
        requireArgument('Cline', instruction),
      ],
      env: { DO_NOT_TRACK: '1' },
      files: [
        { path: '.cline/data/settings/providers.json', text: JSON.stringify(providers) },
        { path: '.cline/data/settings/global-settings.json', text: JSON.stringify(GLOBAL_SETTINGS) },
      ],
      input: '',
    }
  },
  trajectoryEvents,
})

function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  const event = objectAt(line, 'event')
  if (line.type !== 'agent_event') return []
  if (event.type === 'iteration_start') return [{ kind: 'turn' }]
  if (event.type === 'content_start' && event.contentType === 'tool') return [toCall(event)]
  if (event.type !== 'content_end') return []
  if (event.contentType === 'text') return [{ kind: 'message', text: textAt(event, 'text') }]
  if (event.contentType === 'reasoning') return [{ kind: 'thought', text: textAt(event, 'text') }]
  return [{ kind: 'result', id: textAt(event, 'toolCallId'), text: JSON.stringify(event.output ?? event.error ?? '') }]
}

const toCall = (event: JsonObject): TrajectoryEvent => ({
  kind: 'call',
  id: textAt(event, 'toolCallId'),
  name: textAt(event, 'toolName'),
  arguments: objectAt(event, 'input'),
})

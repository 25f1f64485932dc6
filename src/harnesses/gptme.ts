import { stringify } from 'smol-toml'
import { pythonBundle, pythonCommand } from './bundles/bundle.ts'
import lock from './bundles/gptme.lock.json' with { type: 'json' }
import { buildChatHarness, requireArgument } from './chat-program.ts'
import { type JsonObject, textAt } from './json.ts'
import type { TrajectoryEvent } from './trajectory.ts'

const PROVIDER = 'assay'
const TOKEN_VARIABLE = 'ASSAY_MODEL_TOKEN'

export const gptme = buildChatHarness({
  id: 'gptme',
  name: 'gptme',
  version: lock.version,
  bundle: pythonBundle('gptme', lock),
  start: ({ model, baseUrl, token }, instruction) => ({
    command: [
      ...pythonCommand('gptme.cli.main:main'),
      ...[
        '--non-interactive',
        '--output-format',
        'json',
        '--tool-format',
        'tool',
        '--tools',
        'shell,patch,save,append',
      ],
      ...['--no-workspace', '-m', `${PROVIDER}/${model}`, '--', requireArgument('gptme', instruction)],
    ],
    // The program downloads a tokenizer for every message unless this limit is 0.
    env: { [TOKEN_VARIABLE]: token, GPTME_TIKTOKEN_TIMEOUT: '0' },
    files: [
      {
        path: '.config/gptme/config.toml',
        text: stringify({
          providers: [{ name: PROVIDER, base_url: `${baseUrl}/v1`, api_key_env: TOKEN_VARIABLE, default_model: model }],
        }),
      },
    ],
    input: '',
  }),
  trajectoryEvents,
})

function trajectoryEvents(line: JsonObject): TrajectoryEvent[] {
  const text = textAt(line, 'content')
  if (line.role === 'assistant') return [{ kind: 'turn' }, { kind: 'message', text }]
  return []
}

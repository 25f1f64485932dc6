import { BUNDLE, nativeBundle } from './bundles/bundle.ts'
import lock from './bundles/kilo.lock.json' with { type: 'json' }
import { buildChatHarness } from './chat-program.ts'
import { parseOpencodeEvents, XDG_FOLDERS } from './opencode.ts'

const PROGRAM = 'program/bin/kilo'
const CONFIG = '.config/kilo'
const PROVIDER = 'assay'

/** A descendant of OpenCode with its own settings. */
export const kilo = buildChatHarness({
  id: 'kilo',
  name: 'Kilo Code',
  version: lock.version,
  bundle: nativeBundle('kilo', lock, PROGRAM),
  start({ model, baseUrl, token, contextTokens, outputTokens }, instruction) {
    const modelSettings = { name: model, tool_call: true, limit: { context: contextTokens, output: outputTokens } }
    const settings = {
      autoupdate: false,
      share: 'disabled',
      permission: { webfetch: 'deny', websearch: 'deny', question: 'deny' },
      small_model: `${PROVIDER}/${model}`,
      provider: {
        [PROVIDER]: {
          npm: '@ai-sdk/openai-compatible',
          name: PROVIDER,
          options: { baseURL: `${baseUrl}/v1`, apiKey: token, timeout: false },
          models: { [model]: modelSettings },
        },
      },
    }
    return {
      command: [
        ...[`${BUNDLE}/${PROGRAM}`, 'run', '--format', 'json', '--auto', '--title', 'task'],
        ...['-m', `${PROVIDER}/${model}`],
      ],
      env: {
        KILO_DISABLE_AUTOUPDATE: '1',
        KILO_DISABLE_MODELS_FETCH: '1',
        KILO_DISABLE_LSP_DOWNLOAD: '1',
        KILO_TELEMETRY_LEVEL: 'off',
        ...XDG_FOLDERS,
      },
      files: [{ path: `${CONFIG}/kilo.json`, text: JSON.stringify(settings) }],
      input: instruction,
    }
  },
  trajectoryEvents: parseOpencodeEvents,
})

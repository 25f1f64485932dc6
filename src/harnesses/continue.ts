import { stringify } from 'yaml'
import { BUNDLE, NODE, nodeBundle } from './bundles/bundle.ts'
import lock from './bundles/continue.lock.json' with { type: 'json' }
import { buildChatHarness } from './chat-program.ts'
import { HOME } from './harness.ts'

const SCRIPT = 'node_modules/@continuedev/cli/dist/cn.js'
const CONFIG = '.continue/config.yaml'
const PRELOAD = '.continue/no-version-check.mjs'
/** Module that refuses the request for the newest version, which the program sends at every start and no setting prevents. */
const NO_VERSION_CHECK = `const request = globalThis.fetch
globalThis.fetch = (url, options) =>
  String(url).startsWith('https://api.continue.dev/cn/info') ? Promise.reject(new Error('off')) : request(url, options)
`

/** A program that prints its last message only, so that there is no trajectory. */
export const continueCli = buildChatHarness({
  id: 'continue',
  name: 'Continue CLI',
  version: lock.version,
  bundle: nodeBundle('continue', lock),
  start({ model, baseUrl, token, contextTokens, outputTokens }, instruction) {
    const modelSettings = {
      name: model,
      provider: 'openai',
      model,
      apiBase: `${baseUrl}/v1`,
      apiKey: token,
      useResponsesApi: false,
      roles: ['chat'],
      capabilities: ['tool_use'],
      defaultCompletionOptions: { contextLength: contextTokens, maxTokens: outputTokens },
    }
    const config = { name: 'assay', version: '1.0.0', schema: 'v1', models: [modelSettings] }
    return {
      command: [
        NODE,
        '--import',
        `${HOME}/${PRELOAD}`,
        `${BUNDLE}/${SCRIPT}`,
        '-p',
        '--auto',
        '--config',
        `${HOME}/${CONFIG}`,
      ],
      env: { CONTINUE_TELEMETRY_ENABLED: '0', CONTINUE_CLI_AUTO_UPDATED: '1', DO_NOT_TRACK: '1' },
      files: [
        { path: CONFIG, text: stringify(config) },
        { path: PRELOAD, text: NO_VERSION_CHECK },
      ],
      input: instruction,
    }
  },
})

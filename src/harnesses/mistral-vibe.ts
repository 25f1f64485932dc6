import { stringify } from 'smol-toml'
import { acpClientFile, acpCommand, parseAcpEvents } from './acp.ts'
import { pythonBundle, pythonCommand, withNode } from './bundles/bundle.ts'
import lock from './bundles/mistral-vibe.lock.json' with { type: 'json' }
import { buildChatHarness } from './chat-program.ts'

const NAME = 'assay'
const TOKEN_VARIABLE = 'ASSAY_MODEL_TOKEN'

/** An agent of the Agent Client Protocol. Its user interface is not used, because it needs a terminal. */
export const mistralVibe = buildChatHarness({
  id: 'mistral-vibe',
  name: 'Mistral Vibe',
  version: lock.version,
  bundle: withNode(pythonBundle('mistral-vibe', lock)),
  start({ model, baseUrl, token }, instruction) {
    const config = {
      active_model: NAME,
      bypass_tool_permissions: true,
      enable_telemetry: false,
      enable_update_checks: false,
      enable_auto_update: false,
      enable_connectors: false,
      providers: [{ name: NAME, api_base: `${baseUrl}/v1`, api_key_env_var: TOKEN_VARIABLE, backend: 'generic' }],
      models: [{ name: model, provider: NAME, alias: NAME }],
    }
    return {
      command: acpCommand(pythonCommand('vibe.acp.entrypoint:main')),
      env: { [TOKEN_VARIABLE]: token },
      files: [acpClientFile(), { path: '.vibe/config.toml', text: stringify(config) }],
      input: instruction,
    }
  },
  trajectoryEvents: parseAcpEvents,
})

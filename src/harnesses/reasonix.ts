import { stringify } from 'smol-toml'
import { acpClientFile, acpCommand, parseAcpEvents } from './acp.ts'
import { BUNDLE, nativeBundle, withNode } from './bundles/bundle.ts'
import lock from './bundles/reasonix.lock.json' with { type: 'json' }
import { buildChatHarness } from './chat-program.ts'

const PROGRAM = 'program/bin/reasonix'
const TOKEN_VARIABLE = 'ASSAY_MODEL_TOKEN'

/** An agent of the Agent Client Protocol. */
export const reasonix = buildChatHarness({
  id: 'reasonix',
  name: 'Reasonix',
  version: lock.version,
  bundle: withNode(nativeBundle('reasonix', lock, PROGRAM)),
  start({ model, baseUrl, token }, instruction) {
    const provider = { name: 'assay', kind: 'openai', base_url: `${baseUrl}/v1`, model, api_key_env: TOKEN_VARIABLE }
    const config = {
      default_model: 'assay',
      providers: [provider],
      sandbox: { bash: 'off' },
      lsp: { enabled: false },
      telemetry: { mode: 'off' },
    }
    return {
      // The trial's sandbox replaces the program's own, which is not available inside another.
      command: acpCommand([`${BUNDLE}/${PROGRAM}`, 'acp'], { tool_approval: 'danger-full-access' }),
      env: {},
      files: [
        acpClientFile(),
        // The program takes keys from this file only, not from its environment.
        { path: '.reasonix/.env', text: `${TOKEN_VARIABLE}=${token}\n` },
        { path: '.reasonix/config.toml', text: stringify(config) },
      ],
      input: instruction,
    }
  },
  trajectoryEvents: parseAcpEvents,
})

import { stringify } from 'yaml'
import { pythonBundle, pythonCommand } from './bundles/bundle.ts'
import lock from './bundles/hermes-agent.lock.json' with { type: 'json' }
import { buildChatHarness, requireArgument } from './chat-program.ts'
import { HOME } from './harness.ts'

const FOLDER = '.hermes'

/** A program that prints its last message only, so that there is no trajectory. */
export const hermesAgent = buildChatHarness({
  id: 'hermes-agent',
  name: 'Hermes Agent',
  version: lock.version,
  bundle: pythonBundle('hermes-agent', lock),
  start({ model, baseUrl, token, contextTokens }, instruction) {
    const config = {
      model: {
        default: model,
        provider: 'custom',
        base_url: `${baseUrl}/v1`,
        api_key: token,
        context_length: contextTokens,
      },
      updates: { check: false },
    }
    return {
      command: [
        ...pythonCommand('hermes_cli.main:main'),
        ...['--toolsets', 'terminal,file', '-z', requireArgument('Hermes Agent', instruction)],
      ],
      env: { HERMES_HOME: `${HOME}/${FOLDER}` },
      files: [{ path: `${FOLDER}/config.yaml`, text: stringify(config) }],
      input: '',
    }
  },
})

import { pythonBundle, pythonCommand } from './bundles/bundle.ts'
import lock from './bundles/mini-swe-agent.lock.json' with { type: 'json' }
import { buildChatHarness, requireArgument } from './chat-program.ts'
import { HOME } from './harness.ts'

const CONFIG = '.mini/config.yaml'

/** A program that prints its steps as text, so that there is no trajectory. */
export const miniSweAgent = buildChatHarness({
  id: 'mini-swe-agent',
  name: 'mini-swe-agent',
  version: lock.version,
  bundle: pythonBundle('mini-swe-agent', lock),
  start: ({ model, baseUrl, token }, instruction) => ({
    command: [
      ...pythonCommand('minisweagent.run.mini:app'),
      ...['-c', 'mini.yaml', '-c', `${HOME}/${CONFIG}`, '-m', `openai/${model}`, '-y', '--exit-immediately'],
      ...['-l', '0', '-t', requireArgument('mini-swe-agent', instruction)],
    ],
    env: {
      OPENAI_API_KEY: token,
      OPENAI_BASE_URL: `${baseUrl}/v1`,
      MSWEA_CONFIGURED: 'true',
      MSWEA_COST_TRACKING: 'ignore_errors',
      // The gateway retries too; the default of ten attempts takes minutes after the budget is spent.
      MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT: '3',
      MSWEA_GLOBAL_CONFIG_DIR: `${HOME}/.mini`,
      // Otherwise its library asks GitHub for the prices of models.
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
    },
    files: [{ path: CONFIG, text: JSON.stringify({ model: { model_kwargs: { drop_params: true } } }) }],
    input: '',
  }),
})

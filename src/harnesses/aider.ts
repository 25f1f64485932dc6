import lock from './bundles/aider.lock.json' with { type: 'json' }
import { pythonBundle, pythonCommand } from './bundles/bundle.ts'
import { buildChatHarness } from './chat-program.ts'
import { HOME } from './harness.ts'

const FOLDER = '.aider'
const INSTRUCTION = `${FOLDER}/instruction.md`
const METADATA = `${FOLDER}/model.json`
/** Script that starts aider without git outside a repository, where it would create one because of `--yes-always`. */
const START = '[ -e .git ] || set -- "$@" --no-git; exec "$@"'

/** A program that edits files from the text of an answer, without tools. It prints text, so there is no trajectory. */
export const aider = buildChatHarness({
  id: 'aider',
  name: 'aider',
  version: lock.version,
  bundle: pythonBundle('aider', lock),
  start({ model, baseUrl, token, contextTokens, outputTokens }, instruction) {
    const modelSettings = {
      litellm_provider: 'openai',
      mode: 'chat',
      max_input_tokens: contextTokens,
      max_output_tokens: outputTokens,
      input_cost_per_token: 0,
      output_cost_per_token: 0,
    }
    const name = `openai/${model}`
    return {
      command: [
        ...['sh', '-c', START, 'sh', ...pythonCommand('aider.main:main')],
        ...['--model', name, '--weak-model', name, '--editor-model', name, '--message-file', `${HOME}/${INSTRUCTION}`],
        ...['--yes-always', '--no-auto-commits', '--no-dirty-commits', '--no-gitignore', '--no-detect-urls'],
        ...['--no-check-update', '--no-show-release-notes', '--no-show-model-warnings', '--analytics-disable'],
        ...['--no-pretty', '--no-fancy-input', '--model-metadata-file', `${HOME}/${METADATA}`],
        ...['--chat-history-file', `${HOME}/${FOLDER}/chat.md`, '--input-history-file', `${HOME}/${FOLDER}/input`],
      ],
      env: {
        OPENAI_API_KEY: token,
        OPENAI_API_BASE: `${baseUrl}/v1`,
        // Otherwise its library asks GitHub for the prices of models.
        LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      },
      files: [
        { path: INSTRUCTION, text: instruction },
        { path: METADATA, text: JSON.stringify({ [name]: modelSettings }) },
      ],
      input: '',
    }
  },
})

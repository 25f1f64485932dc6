import { pythonBundle, pythonCommand } from './bundles/bundle.ts'
import lock from './bundles/code-puppy.lock.json' with { type: 'json' }
import { buildChatHarness, requireArgument } from './chat-program.ts'

const FOLDER = '.code_puppy'
const MODEL = 'assay'
const TOKEN_VARIABLE = 'ASSAY_MODEL_TOKEN'
/** The program asks for both names if they are missing. */
const SETTINGS = `[puppy]
puppy_name = Puppy
owner_name = Assay
model = ${MODEL}
yolo_mode = true
`

/** A program that prints its steps as text, so that there is no trajectory. */
export const codePuppy = buildChatHarness({
  id: 'code-puppy',
  name: 'Code Puppy',
  version: lock.version,
  bundle: pythonBundle('code-puppy', lock),
  start({ model, baseUrl, token, contextTokens }, instruction) {
    const modelSettings = {
      type: 'custom_openai',
      name: model,
      custom_endpoint: { url: `${baseUrl}/v1`, api_key: `$${TOKEN_VARIABLE}` },
      context_length: contextTokens,
      supported_settings: [],
    }
    return {
      command: [
        ...pythonCommand('code_puppy.main:main_entry'),
        ...['--disable-ask-user-question', '-m', MODEL, '-p', requireArgument('Code Puppy', instruction)],
      ],
      env: { [TOKEN_VARIABLE]: token, NO_VERSION_UPDATE: '1' },
      files: [
        { path: `${FOLDER}/puppy.cfg`, text: SETTINGS },
        { path: `${FOLDER}/extra_models.json`, text: JSON.stringify({ [MODEL]: modelSettings }) },
      ],
      input: '',
    }
  },
})

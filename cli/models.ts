import { Argument, type Command, Option } from 'commander'
import type { CustomModel } from '../src/catalog/schema.ts'
import { LEVELS, PROTOCOLS } from '../src/harnesses/model-access.ts'
import { call } from '../src/platform/http/client.ts'
import { suggestName } from '../src/platform/suggestion.ts'
import { requireConfirmation, YES, type YesFlag } from './confirm.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { addCatalogCommand } from './models-catalog.ts'
import { collectPages, openService, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatTime, printTable } from './table.ts'

type ModelProtocol = (typeof PROTOCOLS)[number]
type ModelLevel = (typeof LEVELS)[number]
type ModelCloud = NonNullable<CustomModel['cloud']>

/** Fields of the credentials of clouds that a variable can hold. Undefined if a credential has several fields. */
const CLOUD_KEY_FIELDS: Record<ModelCloud, string | undefined> = {
  bedrock: undefined,
  vertex: 'serviceAccount',
  azure: 'apiKey',
}

type AddModelFlags = {
  name?: string
  label?: string
  protocol: ModelProtocol
  baseUrl: string
  cloud?: ModelCloud
  levels: string
  defaultLevel?: string
  input?: string
  output?: string
  contextTokens?: string
  outputTokens?: string
  keyEnv?: string
  cacheRead?: string
  cacheWrite?: string
}

export function addModelsCommands(assay: Command, shell: Shell): void {
  const models = assay
    .command('models')
    .description('Manage models, custom models and recorded model calls')
    .helpCommand(false)
  withExample(
    models
      .command('list')
      .description('List the custom models of the workspace, newest first')
      .action((_flags: object, command: Command) => list(shell, command)),
    'assay models list',
  )
  addAddCommand(models, shell)
  withExample(
    models
      .command('remove')
      .description('Remove a model that no running comparison uses')
      .argument('<catalog-id>', 'Id from `assay models list`')
      .option(...YES)
      .action((catalogId: string, flags: YesFlag, command: Command) => remove(shell, command, flags, catalogId)),
    'assay models remove custom/house',
  )
  addCatalogCommand(models, shell)
  addBodiesCommand(models, shell)
}

function addAddCommand(models: Command, shell: Shell): void {
  withExample(
    models
      .command('add')
      .description('Add a custom model or update its prices. Its key is a credential of the provider custom/<name>')
      .argument('<catalog-id>', 'Id of the model: custom/ and a new name; names cannot be reused')
      .option('--name <name>', "Provider's name of the model (default: as after custom/)")
      .option('--label <label>', 'Name shown to people (default: the model name)')
      .addOption(
        new Option('--protocol <protocol>', 'Protocol of the model API').choices([...PROTOCOLS]).default('openai-chat'),
      )
      .requiredOption('--base-url <url>', 'Base URL of the API, for example http://127.0.0.1:11434/v1')
      .addOption(
        new Option('--cloud <cloud>', 'Cloud that hosts the model behind its own authentication').choices(
          Object.keys(CLOUD_KEY_FIELDS),
        ),
      )
      .option('--key-env <variable>', 'Store the key in this environment variable as a credential of the model')
      .option('--levels <levels>', `Supported levels, comma-separated: ${LEVELS.join(', ')}`, 'none')
      .option('--default-level <level>', 'Default level (default: the first)')
      .option('--input <usd>', 'Price per million input tokens (default: 0 for http addresses, else required)')
      .option('--output <usd>', 'Price per million output tokens (default: as for --input)')
      .option('--context-tokens <number>', 'Maximum number of input tokens')
      .option('--output-tokens <number>', 'Maximum number of output tokens')
      .option('--cache-read <usd>', 'Price per million tokens read from the cache (default: as input)')
      .option('--cache-write <usd>', 'Price per million tokens written to the cache (default: as input)')
      .action((catalogId: string, flags: AddModelFlags, command: Command) => add(shell, command, flags, catalogId)),
    'assay models add custom/qwen3 --base-url http://127.0.0.1:11434/v1',
    'assay models add custom/house --name house-v2 --protocol openai-chat --base-url https://models.example.com/v1 --levels none,low,high --input 0.5 --output 2',
  )
}

const loadContract = () => import('../src/catalog/schema.ts')

async function list(shell: Shell, command: Command): Promise<void> {
  const service = await openService(shell, command)
  const { listModels } = await loadContract()
  const { items: models, nextCursor } = await collectPages(async (query) => {
    const { body } = await call(service, listModels, { params: { org: service.org }, query })
    return { items: body.models, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { models, nextCursor })
  printTable<CustomModel>(shell, models, [
    ['MODEL', ({ catalogId }) => catalogId],
    ['NAME', ({ name }) => name],
    ['PROTOCOL', ({ protocol }) => protocol],
    ['LEVELS', ({ reasoningLevels }) => reasoningLevels.join(',')],
    ['IN', ({ prices }) => String(prices.input)],
    ['OUT', ({ prices }) => String(prices.output)],
    ['ADDED', ({ createdAt }) => formatTime(createdAt, '-')],
  ])
  note(shell, 'These are custom models. For the catalog: assay models catalog')
}

async function add(shell: Shell, command: Command, flags: AddModelFlags, catalogId: string): Promise<void> {
  const body = toNewModel(flags, catalogId)
  const key = readKey(shell, flags)
  const service = await openService(shell, command)
  const { status, body: model } = await call(service, (await loadContract()).addModel, {
    params: { org: service.org },
    body,
  })
  const credential = await storeKey(service, model, key)
  if (service.json) return printJson(shell, model)
  note(shell, status === 201 ? `Added ${model.label}.` : `${model.label} already exists, unchanged.`)
  if (credential !== undefined && status === 201) note(shell, credential)
  print(shell, model.catalogId)
}

function toNewModel(flags: AddModelFlags, catalogId: string) {
  const {
    name = catalogId.replace(/^custom\//, ''),
    label = name,
    protocol,
    baseUrl,
    cloud,
    cacheRead,
    cacheWrite,
  } = flags
  const reasoningLevels = flags.levels.split(',').map(parseLevel)
  const [firstLevel = 'none'] = reasoningLevels
  const defaultPrice = isPlainHttp(baseUrl) ? '0' : undefined
  return {
    catalogId,
    name,
    label,
    protocol,
    baseUrl,
    cloud,
    reasoningLevels,
    defaultReasoningLevel: flags.defaultLevel === undefined ? firstLevel : parseLevel(flags.defaultLevel),
    contextTokens: parseTokens('--context-tokens', flags.contextTokens),
    outputTokens: parseTokens('--output-tokens', flags.outputTokens),
    prices: {
      input: parsePrice('--input', flags.input ?? defaultPrice),
      output: parsePrice('--output', flags.output ?? defaultPrice),
      cacheRead: cacheRead !== undefined ? parsePrice('--cache-read', cacheRead) : undefined,
      cacheWrite: cacheWrite !== undefined ? parsePrice('--cache-write', cacheWrite) : undefined,
    },
  }
}

/**
 * Returns true for addresses with plain http. The service accepts them only in private networks, where model servers seldom
 * bill tokens or check keys.
 */
const isPlainHttp = (baseUrl: string): boolean => baseUrl.startsWith('http://')

/** Key that is stored for servers that need none, because a model is selected together with a credential. */
export const NO_KEY = 'none'

/** Returns the key to store as a credential of the model, or undefined if the user adds the credential later. */
function readKey({ env }: Shell, { keyEnv, baseUrl, cloud }: AddModelFlags): string | undefined {
  if (keyEnv === undefined) return isPlainHttp(baseUrl) && !cloud ? NO_KEY : undefined
  if (cloud && CLOUD_KEY_FIELDS[cloud] === undefined)
    throw new WrongUse(
      `Credentials of ${cloud} have several fields. Leave out --key-env and use assay credentials add.`,
    )
  const key = env[keyEnv]
  if (!key) throw new WrongUse(`The variable ${keyEnv} in --key-env is not set.`)
  return key
}

/** Stores the key unless the model has a credential already. Returns a sentence for the user, if there is one. */
export async function storeKey(
  service: Service,
  { catalogId, cloud }: Pick<CustomModel, 'catalogId' | 'cloud'>,
  key: string | undefined,
): Promise<string | undefined> {
  const addKeyHint = `Its key: assay credentials add model ${catalogId} --name key`
  if (key === undefined) return addKeyHint
  const { createCredential, listCredentials } = await import('../src/credentials/schema.ts')
  const params = { org: service.org }
  const { body } = await call(service, listCredentials, { params })
  if (body.credentials.some(({ kind, provider }) => kind === 'model' && provider === catalogId)) return undefined
  const name = key === NO_KEY ? 'No key' : 'Key'
  const credential = {
    kind: 'model' as const,
    provider: catalogId,
    name,
    secret: { [(cloud && CLOUD_KEY_FIELDS[cloud]) ?? 'apiKey']: key },
  }
  await call(service, createCredential, { params, body: credential })
  return key === NO_KEY ? 'It is called without a key. If it needs one, use --key-env.' : 'Its key is stored.'
}

function parseLevel(text: string): ModelLevel {
  const level = LEVELS.find((known) => known === text.trim())
  if (level) return level
  throw new WrongUse(`Unknown level ${text}.${suggestName(text, LEVELS)} Available: ${LEVELS.join(', ')}.`)
}

function parseTokens(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new WrongUse(`${flag} must be a number of tokens.`)
}

function parsePrice(flag: string, text: string | undefined): number {
  if (text === undefined) throw new WrongUse(`${flag} is missing. Give the price in USD per million tokens, or 0.`)
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text)
  throw new WrongUse(`${flag} must be a price in USD per million tokens, for example 0.5.`)
}

async function remove(shell: Shell, command: Command, flags: YesFlag, catalogId: string): Promise<void> {
  const [, slug] = /^custom\/(.+)$/.exec(catalogId) ?? []
  if (slug === undefined) throw new WrongUse('Only custom models can be removed: custom/<name>.')
  const service = await openService(shell, command)
  await requireConfirmation(shell, `Remove ${catalogId}? This id cannot be reused.`, flags)
  await call(service, (await loadContract()).removeModel, { params: { org: service.org, slug } })
  if (!service.json) note(shell, `Removed ${catalogId}.`)
}

function addBodiesCommand(models: Command, shell: Shell): void {
  withExample(
    models
      .command('bodies')
      .description(
        'Turn the recording of model requests and answers in trials on or off; admins can read them. Without an argument, show the setting',
      )
      .addArgument(new Argument('[state]').choices(['on', 'off']))
      .action((state: 'on' | 'off' | undefined, _flags: object, command: Command) =>
        changeBodyRecording(shell, command, state),
      ),
    'assay models bodies on',
  )
}

/** Shows whether bodies are recorded, after changing it if `state` is given. */
async function changeBodyRecording(shell: Shell, command: Command, state: 'on' | 'off' | undefined): Promise<void> {
  const service = await openService(shell, command)
  const { readGatewaySettings, changeGatewaySettings } = await import('../src/gateway/schema.ts')
  const params = { org: service.org }
  const { body } =
    state === undefined
      ? await call(service, readGatewaySettings, { params })
      : await call(service, changeGatewaySettings, { params, body: { recordBodies: state === 'on' } })
  if (service.json) return printJson(shell, body)
  if (state !== undefined) note(shell, 'Applies to trials that start from now on.')
  print(shell, body.recordBodies ? 'on' : 'off')
}

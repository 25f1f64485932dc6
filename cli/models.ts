import { type Command, Option } from 'commander'
import type { CustomModel } from '../src/catalog/schema.ts'
import { LEVELS, PROTOCOLS } from '../src/harnesses/model-access.ts'
import { call } from '../src/platform/http/client.ts'
import { requireConfirmation, YES, type YesFlag } from './confirm.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { addBodiesCommand } from './models-bodies.ts'
import { addCatalogCommand } from './models-catalog.ts'
import { listAll, openService } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { moment, printTable } from './table.ts'

type ModelProtocol = (typeof PROTOCOLS)[number]
type ModelLevel = (typeof LEVELS)[number]

type AddModelFlags = {
  name: string
  label?: string
  protocol: ModelProtocol
  baseUrl: string
  levels: string
  defaultLevel?: string
  input: string
  output: string
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
  withExample(
    models
      .command('add')
      .description('Add a custom model or update its prices. Its key is a credential of the provider custom/<name>')
      .argument('<catalog-id>', 'custom/ and a new name; names cannot be reused')
      .requiredOption('--name <name>', "Provider's name of the model")
      .option('--label <label>', 'as people call it (default: its name)')
      .addOption(
        new Option('--protocol <protocol>', 'Protocol of the model API')
          .choices([...PROTOCOLS])
          .makeOptionMandatory(true),
      )
      .requiredOption('--base-url <url>', 'Base URL of the API')
      .option('--levels <levels>', `Supported levels, comma-separated: ${LEVELS.join(', ')}`, 'none')
      .option('--default-level <level>', 'Default level (default: the first)')
      .requiredOption('--input <usd>', 'Price per million input tokens')
      .requiredOption('--output <usd>', 'Price per million output tokens')
      .option('--cache-read <usd>', 'Price per million tokens read from the cache (default: as input)')
      .option('--cache-write <usd>', 'Price per million tokens written to the cache (default: as input)')
      .action((catalogId: string, flags: AddModelFlags, command: Command) => add(shell, command, flags, catalogId)),
    'assay models add custom/house --name house-v2 --protocol openai-chat --base-url https://models.example.com/v1 --levels none,low,high --input 0.5 --output 2',
  )
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

const contract = () => import('../src/catalog/schema.ts')

async function list(shell: Shell, command: Command): Promise<void> {
  const service = await openService(shell, command)
  const { listModels } = await contract()
  const { items: models, nextCursor } = await listAll(async (query) => {
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
    ['ADDED', ({ createdAt }) => moment(createdAt, '-')],
  ])
  note(shell, 'These are custom models. For the catalog: assay models catalog')
}

async function add(shell: Shell, command: Command, flags: AddModelFlags, catalogId: string): Promise<void> {
  const { name, label = name, protocol, baseUrl, cacheRead, cacheWrite } = flags
  const reasoningLevels = flags.levels.split(',').map(levelNamed)
  const [first = 'none'] = reasoningLevels
  const service = await openService(shell, command)
  const { status, body } = await call(service, (await contract()).addModel, {
    params: { org: service.org },
    body: {
      catalogId,
      name,
      label,
      protocol,
      baseUrl,
      reasoningLevels,
      defaultReasoningLevel: flags.defaultLevel === undefined ? first : levelNamed(flags.defaultLevel),
      prices: {
        input: price('--input', flags.input),
        output: price('--output', flags.output),
        cacheRead: cacheRead !== undefined ? price('--cache-read', cacheRead) : undefined,
        cacheWrite: cacheWrite !== undefined ? price('--cache-write', cacheWrite) : undefined,
      },
    },
  })
  if (service.json) return printJson(shell, body)
  note(shell, status === 201 ? `Added ${body.label}.` : `${body.label} already exists, unchanged.`)
  print(shell, body.catalogId)
}

function levelNamed(text: string): ModelLevel {
  const level = LEVELS.find((known) => known === text.trim())
  if (level) return level
  throw new WrongUse(`Unknown level ${text}. Available: ${LEVELS.join(', ')}.`)
}

function price(flag: string, text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text)
  throw new WrongUse(`${flag} must be a price in USD per million tokens, for example 0.5.`)
}

async function remove(shell: Shell, command: Command, flags: YesFlag, catalogId: string): Promise<void> {
  const [, slug] = /^custom\/(.+)$/.exec(catalogId) ?? []
  if (slug === undefined) throw new WrongUse('Only custom models can be removed: custom/<name>.')
  const service = await openService(shell, command)
  await requireConfirmation(shell, `Remove ${catalogId}? Its name is never given again.`, flags)
  await call(service, (await contract()).removeModel, { params: { org: service.org, slug } })
  if (!service.json) note(shell, `Removed ${catalogId}.`)
}

import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { createTwoFilesPatch } from 'diff'
import { z } from 'zod'
import type { Configuration, ConfigurationSummary } from '../src/configurations/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { createConfiguration, formatReference, loadContract, readConfigurationFiles } from './configuration-source.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { collectPages, openService, type Service } from './service.ts'
import { print, printJson, type Shell } from './shell.ts'
import { formatCount, formatTime, printFacts, printTable } from './table.ts'

type CreateFlags = { prefix?: string; suffix?: string; options?: string }

export function addConfigurationsCommands(assay: Command, shell: Shell): void {
  const configurations = assay
    .command('configurations')
    .description('Manage agent configurations: AGENTS.md, rules, skills, MCP servers')
    .helpCommand(false)
  addCreateCommand(configurations, shell)
  withExample(
    configurations
      .command('list')
      .description('List all versions of the configurations, newest first')
      .action((_flags: object, command: Command) => list(shell, command)),
    'assay configurations list',
  )
  withExample(
    configurations
      .command('show')
      .description('Show a version of a configuration')
      .argument('<name[@version]>', 'Name, or name@version (default: the newest version)')
      .option('--file <path>', 'Print the content of this file')
      .action((name: string, flags: { file?: string }, command: Command) => show(shell, command, name, flags)),
    'assay configurations show agents-md@1 --file AGENTS.md',
  )
  withExample(
    configurations
      .command('diff')
      .description('Show the differences between two configurations or versions')
      .argument('<old>', 'Name, or name@version')
      .argument('<new>', 'Name, or name@version')
      .action((old: string, current: string, _flags: object, command: Command) => diff(shell, command, old, current)),
    'assay configurations diff agents-md@1 agents-md@2',
  )
}

function addCreateCommand(configurations: Command, shell: Shell): void {
  withExample(
    configurations
      .command('create')
      .description('Create a configuration or a new version of one; the same content gives the same version')
      .argument('<name>', 'Lower-case letters, digits, dots, hyphens and underscores')
      .argument('[paths...]', 'Files, or folders whose files are added to the working directory')
      .option('--prefix <text>', 'Text before the instruction of every task')
      .option('--suffix <text>', 'Text after the instruction of every task')
      .option('--options <file>', 'JSON file with `mcpServers` and `harnesses`; see docs/comparisons.md')
      .action((name: string, paths: string[], flags: CreateFlags, command: Command) =>
        create(shell, command, { name, paths, flags }),
      ),
    'assay configurations create agents-md ./AGENTS.md',
    'assay configurations create review-skill ./skills --suffix "Review your work."',
  )
}

type CreateConfigurationInput = { name: string; paths: string[]; flags: CreateFlags }

async function create(shell: Shell, command: Command, { name, paths, flags }: CreateConfigurationInput): Promise<void> {
  const files = []
  for (const path of paths) files.push(...(await readConfigurationFiles(path)))
  const options = flags.options === undefined ? {} : await readOptions(flags.options)
  const service = await openService(shell, command)
  const texts = { instructionPrefix: flags.prefix, instructionSuffix: flags.suffix }
  const created = await createConfiguration(shell, service, { name, files, ...texts, ...options })
  if (service.json) return printJson(shell, created)
  print(shell, formatReference(created))
}

/** Shape of the file of --options. The service validates the values. */
const ConfigurationOptions = z.strictObject({
  mcpServers: z.array(z.any()).optional(),
  harnesses: z.record(z.string(), z.any()).optional(),
})

async function readOptions(file: string): Promise<z.infer<typeof ConfigurationOptions>> {
  const text = await readFile(resolve(file), 'utf8').catch(() => {
    throw new WrongUse(`${file} does not exist.`)
  })
  try {
    return ConfigurationOptions.parse(JSON.parse(text))
  } catch {
    throw new WrongUse(`${file} is not a JSON object with mcpServers and harnesses.`)
  }
}

async function list(shell: Shell, command: Command): Promise<void> {
  const service = await openService(shell, command)
  const { listConfigurations } = await loadContract()
  const { items } = await collectPages(async (query) => {
    const { body } = await call(service, listConfigurations, { params: { org: service.org }, query })
    return { items: body.configurations, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { configurations: items })
  printTable<ConfigurationSummary>(shell, items, [
    ['CONFIGURATION', formatReference],
    ['FILES', ({ files }) => String(files.length)],
    ['BYTES', ({ files }) => String(files.reduce((sum, { bytes }) => sum + bytes, 0))],
    ['DIGEST', ({ digest }) => shortenDigest(digest)],
    ['CREATED', ({ createdAt }) => formatTime(createdAt, '-')],
  ])
}

const shortenDigest = (digest: string): string => digest.slice(0, 'sha256:'.length + 12)

async function readVersion(service: Service, reference: string): Promise<Configuration> {
  const [name = '', version] = reference.split('@')
  const { readConfiguration } = await loadContract()
  const query = version === undefined ? {} : { version: parseVersion(version) }
  return (await call(service, readConfiguration, { params: { org: service.org, name }, query })).body
}

function parseVersion(text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw new WrongUse('A version is a number, as in agents-md@2.')
}

async function show(shell: Shell, command: Command, reference: string, { file }: { file?: string }): Promise<void> {
  const service = await openService(shell, command)
  const configuration = await readVersion(service, reference)
  const { files, instructionPrefix, instructionSuffix, mcpServers, harnesses } = configuration
  if (file !== undefined) {
    const found = files.find(({ path }) => path === file)
    if (!found) throw new Error(`${formatReference(configuration)} has no file ${file}.`)
    return print(shell, ...found.text.replace(/\n$/, '').split('\n'))
  }
  if (service.json) return printJson(shell, configuration)
  printFacts(shell, [
    ['configuration', formatReference(configuration)],
    ['digest', configuration.digest],
    ['created', formatTime(configuration.createdAt, '-')],
    ...files.map(({ path, text }) => ['file', `${path} (${formatCount(Buffer.byteLength(text), 'byte')})`] as const),
    ...(instructionPrefix === '' ? [] : [['prefix', instructionPrefix] as const]),
    ...(instructionSuffix === '' ? [] : [['suffix', instructionSuffix] as const]),
    ...mcpServers.map((server) => ['mcp server', describeServer(server)] as const),
    ...Object.entries(harnesses).map(
      ([id, options]) => ['harness', [id, options.version ?? '', ...options.arguments].join(' ')] as const,
    ),
  ])
}

const describeServer = (server: Configuration['mcpServers'][number]): string =>
  `${server.name}: ${'url' in server ? server.url : server.command.join(' ')}`

async function diff(shell: Shell, command: Command, old: string, current: string): Promise<void> {
  const service = await openService(shell, command)
  const [before, after] = [await readVersion(service, old), await readVersion(service, current)]
  if (service.json) return printJson(shell, { before, after })
  const [textsBefore, textsAfter] = [listTexts(before), listTexts(after)]
  const paths = [...new Set([...textsBefore.keys(), ...textsAfter.keys()])].sort()
  const changedPaths = paths.filter((path) => textsBefore.get(path) !== textsAfter.get(path))
  if (changedPaths.length === 0) return print(shell, 'No differences.')
  for (const path of changedPaths) {
    const [from, to] = [textsBefore.get(path), textsAfter.get(path)]
    const patch = createTwoFilesPatch(
      from === undefined ? '/dev/null' : `${formatReference(before)}/${path}`,
      to === undefined ? '/dev/null' : `${formatReference(after)}/${path}`,
      from ?? '',
      to ?? '',
    )
    const [, ...lines] = patch.replace(/\n$/, '').split('\n')
    // The first line of the patch is a separator.
    print(shell, ...lines)
  }
}

/** Returns the parts of a configuration as texts by path. Parts that are not files have names in parentheses. */
function listTexts({ files, instructionPrefix, instructionSuffix, mcpServers, harnesses }: Configuration) {
  const texts = new Map(files.map(({ path, text }) => [path, text]))
  const otherParts = { instructionPrefix, instructionSuffix, mcpServers, harnesses }
  for (const [name, value] of Object.entries(otherParts)) {
    const text = typeof value === 'string' ? value : JSON.stringify(value, null, 2)
    const isEmpty = text === '' || text === '[]' || text === '{}'
    if (!isEmpty) texts.set(`(${name})`, `${text}\n`)
  }
  return texts
}

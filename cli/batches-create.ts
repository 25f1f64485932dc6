import type { Command } from 'commander'
import { call, callWithProgress } from '../src/platform/http/client.ts'
import { suggestName } from '../src/platform/suggestion.ts'
import type { BatchPreview, GenerationOptions, NewGeneration, PreviewProgress } from '../src/taskgen/schema.ts'
import { loadContract } from './batch.ts'
import { followBatch } from './batches-watch.ts'
import { isInteractive, requireConfirmation, YES, type YesFlag } from './confirm.ts'
import { WrongUse } from './failure.ts'
import { parseNumber } from './flag-values.ts'
import { withExample } from './help.ts'
import { createLiveLines } from './live-lines.ts'
import { type OpenedRepository, openRepository, REPO, type RepoFlag } from './repository.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { alignColumns, printTable } from './table.ts'

type CountFlags = RepoFlag & { easy?: string; medium?: string; hard?: string; again?: boolean }
export type CreateBatchFlags = CountFlags &
  YesFlag & {
    author?: string
    verifier?: string
    reasoning?: string
    credential?: string
    sandbox?: string
    harborEnvironment?: string
    budget?: string
    detach?: boolean
  }

const AGAIN = ['--again', 'Include pull requests that an earlier batch has tried'] as const

const withCounts = (command: Command): Command =>
  command
    .requiredOption(...REPO)
    .option('--easy <number>', 'Number of easy candidates (one small change)')
    .option('--medium <number>', 'Number of medium candidates')
    .option('--hard <number>', 'Number of hard candidates (many files or lines)')
    .option(...AGAIN)

export function addCreateCommands(batches: Command, shell: Shell): void {
  withExample(
    batches
      .command('options')
      .description('Show the models, levels, credentials and sandboxes that a batch can use')
      .requiredOption(...REPO)
      .action((flags: RepoFlag, command: Command) => printOptions(shell, command, flags)),
    'assay batches options --repo lab/demo',
  )
  withExample(
    withCounts(
      batches
        .command('preview')
        .description('Preview how many tasks the pull requests could supply, and why others are rejected'),
    ).action((flags: CountFlags, command: Command) => printPreview(shell, command, flags)),
    'assay batches preview --repo lab/demo --easy 10 --hard 5',
  )
  withExample(
    withCounts(
      batches
        .command('create')
        .description(
          'Create tasks from merged pull requests and watch. Shows a forecast and asks on a terminal; Ctrl-C leaves the batch running',
        ),
    )
      .option('--author <model>', 'Model that writes instructions (default: see `assay batches options`)')
      .option(
        '--verifier <model>',
        'Model that reviews tasks (default: a model of another provider, if a credential allows it)',
      )
      .option('--reasoning <level>', 'Reasoning level of both models')
      .option('--credential <id>', 'Credential for the models (default: the first that fits the author)')
      .option('--sandbox <name>', 'Sandbox that builds repositories and runs tests')
      .option('--harbor-environment <name>', 'Sandbox that validates finished tasks (default: the same)')
      .option('--budget <usd>', 'Stop calling models after spending this much (USD)')
      .option('--detach', 'Print the id and do not watch')
      .option(...YES)
      .action((flags: CreateBatchFlags, command: Command) => create(shell, command, flags)),
    'assay batches create --repo lab/demo --easy 5 --medium 5 --hard 2',
    'assay batches create --repo lab/demo --hard 10 --author openai/gpt-5.4 --budget 5 --detach',
  )
}

export async function readOptions({ service, params }: OpenedRepository): Promise<GenerationOptions> {
  return (await call(service, (await loadContract()).readGenerationOptions, { params })).body
}

async function printOptions(shell: Shell, command: Command, { repo }: RepoFlag): Promise<void> {
  const opened = await openRepository(shell, command, repo)
  const options = await readOptions(opened)
  if (opened.service.json) return printJson(shell, options)
  printTable<GenerationOptions['models'][number]>(shell, options.models, [
    ['MODEL', ({ catalogId }) => catalogId],
    ['REASONING', ({ reasoning }) => reasoning.join(' ')],
    ['INPUT', ({ prices }) => `$${prices.input}`],
    ['OUTPUT', ({ prices }) => `$${prices.output}`],
    ['DEFAULT', ({ catalogId }) => formatRoles(options.defaults, catalogId)],
  ])
  printTable<GenerationOptions['sandboxes'][number]>(shell, options.sandboxes, [
    ['SANDBOX', ({ id }) => id],
    ['AVAILABLE', ({ available, detail }) => (available ? 'yes' : `no: ${detail}`)],
    ['ISOLATION', ({ isolation }) => isolation ?? '-'],
  ])
  if (!options.defaults) note(shell, ...describeMissing(options).split('\n'))
}

/** Lists the requirements of a batch that are not met. */
function describeMissing({ models, sandboxes }: GenerationOptions): string {
  const noModel = 'No credential gives access to a model. Add one: assay credentials add model <provider> --name <name>'
  const noSandbox = 'No sandbox is available. Run `assay doctor` on the worker to see why.'
  return [
    ...(models.length === 0 ? [noModel] : []),
    ...(sandboxes.some(({ available }) => available) ? [] : [noSandbox]),
  ].join('\n')
}

const formatRoles = (defaults: NewGeneration | null, catalogId: string): string =>
  [
    ...(defaults?.authorModel === catalogId ? ['author'] : []),
    ...(defaults?.verifierModel === catalogId ? ['verifier'] : []),
  ].join(', ')

/** Parses the numbers of candidates. Returns undefined if all are 0. */
function parseCounts({ easy = '0', medium = '0', hard = '0' }: CountFlags) {
  const counts = {
    easy: parseNumber(easy, '--easy'),
    medium: parseNumber(medium, '--medium'),
    hard: parseNumber(hard, '--hard'),
  }
  return counts.easy + counts.medium + counts.hard === 0 ? undefined : counts
}

async function printPreview(shell: Shell, command: Command, flags: CountFlags): Promise<void> {
  const opened = await openRepository(shell, command, flags.repo)
  const preview = await readPreview(shell, opened, flags)
  const { service } = opened
  if (service.json) return printJson(shell, preview)
  print(shell, ...formatPreview(preview))
  for (const warning of preview.warnings) note(shell, warning)
}

async function readPreview(
  shell: Shell,
  { service, params }: OpenedRepository,
  flags: CountFlags,
): Promise<BatchPreview> {
  const { previewBatch } = await loadContract()
  const body = { candidateCounts: parseCounts(flags), again: flags.again ? true : undefined }
  const live = createLiveLines(shell)
  const show = ({ step, pullRequests }: PreviewProgress) =>
    live.show([step === 'mirror' ? 'Reading the repository …' : `${pullRequests} pull requests …`])
  return callWithProgress(service, previewBatch, { params, body }, show).finally(live.end)
}

/** Shows the maximum cost of a batch and asks for confirmation. Does neither without a terminal or with --yes. */
async function confirmForecast(shell: Shell, opened: OpenedRepository, flags: CreateBatchFlags): Promise<void> {
  if (flags.yes || !isInteractive(shell)) return
  note(shell, ...formatPreview(await readPreview(shell, opened, flags)))
  if (flags.budget !== undefined) note(shell, `The budget is $${flags.budget}.`)
  await requireConfirmation(shell, 'Create these tasks?', flags)
}

export function formatPreview({ buckets, pullRequests, branch, rejections, cost }: BatchPreview): string[] {
  const rows = Object.entries(buckets).map(([name, { requested, available, tried, shortfall }]) => {
    const missing = shortfall === 0 ? '' : `${shortfall} missing`
    return [name, String(available), String(tried), String(requested), missing]
  })
  return [
    `${pullRequests} pull requests in ${branch}`,
    ...alignColumns([['DIFFICULTY', 'CANDIDATES', 'TRIED', 'REQUESTED', ''], ...rows]),
    ...(cost.candidates === 0 ? [] : [formatCost(cost)]),
    ...alignColumns(rejections.map(({ reason, count, meaning }) => [reason, String(count), meaning])),
  ]
}

function formatCost({ candidates, capUsd, usualUsd }: BatchPreview['cost']): string {
  const usual = usualUsd === null ? '' : `; about $${usualUsd.toFixed(2)} if they cost as much as earlier candidates`
  return `maximum model cost $${capUsd.toFixed(2)} for ${candidates} candidates${usual}`
}

async function create(shell: Shell, command: Command, flags: CreateBatchFlags): Promise<void> {
  const candidateCounts = parseCounts(flags)
  if (!candidateCounts) throw new WrongUse('Give the number of candidates with --easy, --medium or --hard.')
  const budget = flags.budget === undefined ? {} : { budgetUsd: parseNumber(flags.budget, '--budget') }
  const opened = await openRepository(shell, command, flags.repo)
  const { service, params } = opened
  const generation = buildGeneration(await readOptions(opened), flags)
  await confirmForecast(shell, opened, flags)
  const body = { candidateCounts, generation, ...budget, again: flags.again ? true : undefined }
  const created = (await call(service, (await loadContract()).createBatch, { params, body })).body
  for (const warning of created.run.warnings) note(shell, warning)
  if (flags.detach) return service.json ? printJson(shell, created) : print(shell, created.runId)
  await followBatch(shell, service, { ...params, runId: created.runId })
}

/** Fills in defaults that are compatible with the given flags. */
export function buildGeneration(options: GenerationOptions, flags: CreateBatchFlags): NewGeneration {
  const { defaults } = options
  if (!defaults) throw new WrongUse(describeMissing(options))
  const author = requireModel(options, flags.author ?? defaults.authorModel)
  const verifier = requireModel(options, flags.verifier ?? selectVerifier(options, author, flags.reasoning))
  const sandbox = flags.sandbox ?? defaults.sandbox
  const usesServerKeys = defaults.modelAccess === 'environment' && flags.credential === undefined
  return {
    authorModel: author.catalogId,
    verifierModel: verifier.catalogId,
    sandbox,
    reasoning: flags.reasoning ?? selectSharedLevel(author, verifier, defaults.reasoning),
    ...(usesServerKeys ? { modelAccess: 'environment' } : selectCredentials(options, flags, { author, verifier })),
    harborEnvironment: flags.harborEnvironment ?? sandbox,
  }
}

function selectCredentials(
  options: GenerationOptions,
  { credential }: CreateBatchFlags,
  { author, verifier }: SelectedModels,
) {
  const verifierCredentialId =
    verifier.provider === author.provider ? undefined : findCredential(options, verifier.provider)
  return {
    modelAccess: 'credential' as const,
    modelCredentialId: credential ?? findCredential(options, author.provider),
    verifierCredentialId,
  }
}

type SelectedModels = { author: GenerationModel; verifier: GenerationModel }
type GenerationModel = GenerationOptions['models'][number]

function requireModel({ models }: GenerationOptions, id: string): GenerationModel {
  const model = models.find(({ catalogId }) => catalogId === id)
  if (model) return model
  const known = models.map(({ catalogId }) => catalogId)
  const suggestion = suggestName(id, known)
  throw new WrongUse(
    `Unknown model ${id}, or no credential gives access to it.${suggestion} Available: ${known.join(', ')}.`,
  )
}

/**
 * Selects a verifier of another provider than the author's: the default verifier, otherwise the default author. If neither
 * fits, selects another model of the author's provider, or the author itself.
 */
function selectVerifier(
  { models, defaults }: GenerationOptions,
  author: GenerationModel,
  level: string | undefined,
): string {
  const levels = level === undefined ? author.reasoning : [level]
  const defaultModels = [defaults?.verifierModel, defaults?.authorModel].flatMap((id) =>
    models.filter(({ catalogId }) => catalogId === id && catalogId !== author.catalogId),
  )
  const others = models.filter(({ catalogId }) => catalogId !== author.catalogId)
  const supportsLevel = (other: GenerationModel) => levels.some((each) => other.reasoning.includes(each))
  const verifier =
    defaultModels.find((other) => other.provider !== author.provider && supportsLevel(other)) ??
    [...defaultModels, ...others].find((other) => other.provider === author.provider)
  return (verifier ?? author).catalogId
}

const findCredential = ({ modelCredentials }: GenerationOptions, modelProvider: string): string | undefined =>
  modelCredentials.find(({ provider }) => provider === modelProvider)?.id

/** Selects a level that both models have: the preferred one, otherwise the first. */
function selectSharedLevel(author: GenerationModel, verifier: GenerationModel, preferred: string): string {
  const shared = author.reasoning.filter((level) => verifier.reasoning.includes(level))
  const [level] = [...shared.filter((each) => each === preferred), ...shared]
  if (level !== undefined) return level
  throw new WrongUse(
    `${author.catalogId} and ${verifier.catalogId} have no reasoning level in common. Choose other models.`,
  )
}

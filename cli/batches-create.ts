import type { Command } from 'commander'
import { call, callWithProgress } from '../src/platform/http/client.ts'
import type { BatchPreview, GenerationOptions, NewGeneration, PreviewProgress } from '../src/taskgen/schema.ts'
import { contract, numberOf } from './batch-place.ts'
import { followBatch } from './batches-watch.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { liveLines } from './live-lines.ts'
import { type OpenedRepository, openRepository, REPO, type RepoFlag } from './repository.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { aligned, printTable } from './table.ts'

type CountFlags = RepoFlag & { easy?: string; medium?: string; hard?: string; again?: boolean }
type CreateFlags = CountFlags & {
  author?: string
  verifier?: string
  reasoning?: string
  credential?: string
  sandbox?: string
  harborEnvironment?: string
  budget?: string
  detach?: boolean
}

const AGAIN = ['--again', 'also pull requests that an earlier batch has tried'] as const

const withCounts = (command: Command): Command =>
  command
    .requiredOption(...REPO)
    .option('--easy <number>', 'candidates of one small change')
    .option('--medium <number>', 'candidates between the two')
    .option('--hard <number>', 'candidates of many files or lines')
    .option(...AGAIN)

export function addCreateCommands(batches: Command, shell: Shell): void {
  withExample(
    batches
      .command('options')
      .description('Show what a batch can be made with: models, levels, credentials, sandboxes')
      .requiredOption(...REPO)
      .action((flags: RepoFlag, command: Command) => options(shell, command, flags)),
    'assay batches options --repo lab/demo',
  )
  withExample(
    withCounts(
      batches.command('preview').description('See what pull requests could supply, and why the rest are out'),
    ).action((flags: CountFlags, command: Command) => preview(shell, command, flags)),
    'assay batches preview --repo lab/demo --easy 10 --hard 5',
  )
  withExample(
    withCounts(
      batches.command('create').description('Make tasks of merged pull requests, and watch; Ctrl-C leaves it running'),
    )
      .option('--author <model>', 'who writes instructions (default: as `assay batches options` shows)')
      .option('--verifier <model>', 'who judges them (default: of another provider, where a key opens one)')
      .option('--reasoning <level>', 'of both')
      .option('--credential <id>', 'of the models (default: the first that opens the author)')
      .option('--sandbox <name>', 'where repositories are built and tests run')
      .option('--harbor-environment <name>', 'where finished tasks are validated (default: the same)')
      .option('--budget <usd>', 'at this much no model is asked any more')
      .option('--detach', 'do not watch; print the id')
      .action((flags: CreateFlags, command: Command) => create(shell, command, flags)),
    'assay batches create --repo lab/demo --easy 5 --medium 5 --hard 2',
    'assay batches create --repo lab/demo --hard 10 --author openai/gpt-5.4 --budget 5 --detach',
  )
}

async function readOptions({ service, params }: OpenedRepository): Promise<GenerationOptions> {
  return (await call(service, (await contract()).readGenerationOptions, { params })).body
}

async function options(shell: Shell, command: Command, { repo }: RepoFlag): Promise<void> {
  const opened = await openRepository(shell, command, repo)
  const found = await readOptions(opened)
  if (opened.service.json) return printJson(shell, found)
  printTable<GenerationOptions['models'][number]>(shell, found.models, [
    ['MODEL', ({ catalogId }) => catalogId],
    ['REASONING', ({ reasoning }) => reasoning.join(' ')],
    ['INPUT', ({ prices }) => `$${prices.input}`],
    ['OUTPUT', ({ prices }) => `$${prices.output}`],
    ['DEFAULT', ({ catalogId }) => roleOf(found.defaults, catalogId)],
  ])
  printTable<GenerationOptions['sandboxes'][number]>(shell, found.sandboxes, [
    ['SANDBOX', ({ id }) => id],
    ['AVAILABLE', ({ available, detail }) => (available ? 'yes' : `no: ${detail}`)],
    ['ISOLATION', ({ isolation }) => isolation ?? '-'],
  ])
  if (!found.defaults) note(shell, ...missingIn(found).split('\n'))
}

/** What has to be there before anything can be made, and is not. */
function missingIn({ models, sandboxes }: GenerationOptions): string {
  const noModel = 'No credential opens a model. Add one: assay credentials add model <provider> --name <name>'
  const noSandbox = 'No sandbox is available. `assay doctor` says why, on the machine of the worker.'
  return [
    ...(models.length === 0 ? [noModel] : []),
    ...(sandboxes.some(({ available }) => available) ? [] : [noSandbox]),
  ].join('\n')
}

const roleOf = (defaults: NewGeneration | null, catalogId: string): string =>
  [
    ...(defaults?.authorModel === catalogId ? ['author'] : []),
    ...(defaults?.verifierModel === catalogId ? ['verifier'] : []),
  ].join(', ')

function countsOf({ easy = '0', medium = '0', hard = '0' }: CountFlags) {
  const counts = {
    easy: numberOf(easy, '--easy'),
    medium: numberOf(medium, '--medium'),
    hard: numberOf(hard, '--hard'),
  }
  return counts.easy + counts.medium + counts.hard === 0 ? undefined : counts
}

async function preview(shell: Shell, command: Command, flags: CountFlags): Promise<void> {
  const candidateCounts = countsOf(flags)
  const { service, params } = await openRepository(shell, command, flags.repo)
  const { previewBatch } = await contract()
  const wish = { ...(candidateCounts ? { candidateCounts } : {}), ...(flags.again ? { again: true } : {}) }
  const live = liveLines(shell)
  const show = ({ step, pullRequests }: PreviewProgress) =>
    live.show([step === 'mirror' ? 'Reading the repository …' : `${pullRequests} pull requests …`])
  const found = await callWithProgress(service, previewBatch, { params, body: wish }, show).finally(live.end)
  if (service.json) return printJson(shell, found)
  print(shell, ...previewLines(found))
  for (const warning of found.warnings) note(shell, warning)
}

function previewLines({ buckets, pullRequests, branch, rejections, cost }: BatchPreview): string[] {
  const rows = Object.entries(buckets).map(([name, { requested, available, tried, shortfall }]) => [
    ...[name, String(available), String(tried), String(requested), shortfall === 0 ? '' : `${shortfall} too few`],
  ])
  return [
    `${pullRequests} pull requests in ${branch}`,
    ...aligned([['DIFFICULTY', 'CANDIDATES', 'TRIED', 'WANTED', ''], ...rows]),
    ...(cost.candidates === 0 ? [] : [costLine(cost)]),
    ...aligned(rejections.map(({ reason, count, meaning }) => [reason, String(count), meaning])),
  ]
}

function costLine({ candidates, capUsd, usualUsd }: BatchPreview['cost']): string {
  const usual = usualUsd === null ? '' : `; as earlier ones went, $${usualUsd.toFixed(2)}`
  return `models may cost $${capUsd.toFixed(2)} for ${candidates} candidates${usual}`
}

async function create(shell: Shell, command: Command, flags: CreateFlags): Promise<void> {
  const candidateCounts = countsOf(flags)
  if (!candidateCounts) throw new WrongUse('Say how many: --easy, --medium, --hard.')
  const budget = flags.budget === undefined ? {} : { budgetUsd: numberOf(flags.budget, '--budget') }
  const opened = await openRepository(shell, command, flags.repo)
  const { service, params } = opened
  const generation = generationOf(await readOptions(opened), flags)
  const body = { candidateCounts, generation, ...budget, ...(flags.again ? { again: true } : {}) }
  const made = (await call(service, (await contract()).createBatch, { params, body })).body
  for (const warning of made.run.warnings) note(shell, warning)
  if (flags.detach) return service.json ? printJson(shell, made) : print(shell, made.runId)
  await followBatch(shell, service, { ...params, runId: made.runId })
}

/** What was not said is as in the defaults, as far as it fits what was said. */
function generationOf(found: GenerationOptions, flags: CreateFlags): NewGeneration {
  const { defaults } = found
  if (!defaults) throw new WrongUse(missingIn(found))
  const author = modelOf(found, flags.author ?? defaults.authorModel)
  const verifier = modelOf(found, flags.verifier ?? verifierFor(found, author, flags.reasoning))
  const sandbox = flags.sandbox ?? defaults.sandbox
  const isServers = defaults.modelAccess === 'environment' && flags.credential === undefined
  return {
    ...{ authorModel: author.catalogId, verifierModel: verifier.catalogId, sandbox },
    reasoning: flags.reasoning ?? sharedLevel(author, verifier, defaults.reasoning),
    ...(isServers ? { modelAccess: 'environment' } : keysOf(found, flags, { author, verifier })),
    harborEnvironment: flags.harborEnvironment ?? sandbox,
  }
}

function keysOf(found: GenerationOptions, { credential }: CreateFlags, { author, verifier }: Pair) {
  const own = { modelAccess: 'credential' as const, modelCredentialId: credential ?? keyFor(found, author.provider) }
  const others = verifier.provider === author.provider ? undefined : keyFor(found, verifier.provider)
  return others === undefined ? own : { ...own, verifierCredentialId: others }
}

type Pair = { author: ModelOption; verifier: ModelOption }
type ModelOption = GenerationOptions['models'][number]

function modelOf({ models }: GenerationOptions, id: string): ModelOption {
  const found = models.find(({ catalogId }) => catalogId === id)
  if (found) return found
  const known = models.map(({ catalogId }) => catalogId).join(', ')
  throw new WrongUse(`No credential opens ${id}, or there is no such model. Known: ${known}.`)
}

/** Of another provider than the author, as the defaults have it: their verifier, else their author. */
function verifierFor({ models, defaults }: GenerationOptions, author: ModelOption, level: string | undefined): string {
  const levels = level === undefined ? author.reasoning : [level]
  const usual = [defaults?.verifierModel, defaults?.authorModel].flatMap((id) =>
    models.filter(({ catalogId }) => catalogId === id && catalogId !== author.catalogId),
  )
  const others = models.filter(({ catalogId }) => catalogId !== author.catalogId)
  const isFit = (other: ModelOption) => levels.some((each) => other.reasoning.includes(each))
  const found =
    usual.find((other) => other.provider !== author.provider && isFit(other)) ??
    [...usual, ...others].find((other) => other.provider === author.provider)
  return (found ?? author).catalogId
}

const keyFor = ({ modelCredentials }: GenerationOptions, wanted: string): string | undefined =>
  modelCredentials.find(({ provider }) => provider === wanted)?.id

function sharedLevel(author: ModelOption, verifier: ModelOption, usual: string): string {
  const shared = author.reasoning.filter((level) => verifier.reasoning.includes(level))
  const [level] = [...shared.filter((each) => each === usual), ...shared]
  if (level !== undefined) return level
  throw new WrongUse(`${author.catalogId} and ${verifier.catalogId} have no level in common.`)
}

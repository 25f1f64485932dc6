import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import type { Catalog } from '../src/catalog/schema.ts'
import type { Comparison } from '../src/comparisons/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { type ComparisonWish, type GroundsFlags, groundsOf } from './comparison-grounds.ts'
import { printTrials, type Standing, type TrialFlags, tellErrors } from './comparison-trials.ts'
import { Failed, WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { knownBefore } from './known-before.ts'
import { openService, requireId, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { moment, printTable } from './table.ts'
import { leaving, printSettings, watchComparison } from './watch-comparison.ts'

type VerbFlags = GroundsFlags & TrialFlags & { budget?: string }

type CompareFlags = GroundsFlags & {
  model: string[]
  harness?: string
  sandbox?: string
  attempts: string
  budget?: string
  concurrency?: string
  skipCompleted?: boolean
  id?: string
  detach?: boolean
}

export function addComparisonCommands(assay: Command, shell: Shell): void {
  addCompare(assay, shell)
  addComparisons(assay, shell)
}

function addCompare(assay: Command, shell: Shell): void {
  withExample(
    assay
      .command('compare')
      .description(
        'Compare models and harnesses on a benchmark or on tasks of a repository, and watch; Ctrl-C leaves it running',
      )
      .argument('[benchmark]', 'org/name of one that was added')
      .option(...REPO)
      .option('--task <batch/task>', 'of the repository; may be repeated (default: all that are approved)', collect, [])
      .option(
        '--model <id[@level][=harness,…]>',
        'from the catalog, and with whom it works; may be repeated (default: reference)',
        collect,
        [],
      )
      .option('--harness <names>', 'for models that name none (default: all that the model works with)')
      .option('--sandbox <name>', 'where trials run (default: the first that is available)')
      .option('--attempts <number>', 'trials of each task with each setting', '1')
      .option('--budget <usd>', 'at this much nothing new starts')
      .option('--concurrency <number>', 'trials that run at once')
      .option('--skip-completed', 'take over what was scored before')
      .option('--id <uuid>', 'the same id again is the same comparison')
      .option('--detach', 'do not watch; print the id')
      .action((name: string | undefined, flags: CompareFlags, command: Command) =>
        compare(shell, command, name, flags),
      ),
    'assay compare assay/quick',
    'assay compare --repo lab/demo',
    'assay compare assay/quick --model reference --harness oracle,nop --attempts 3',
    'assay compare assay/quick --model reference=oracle --model custom/house@high=mini --budget 5',
  )
}

function addComparisons(assay: Command, shell: Shell): void {
  const comparisons = assay.command('comparisons').description('Comparisons that were started').helpCommand(false)
  withExample(
    comparisons
      .command('list')
      .description('List the comparisons on a benchmark or a repository, newest first')
      .argument('[benchmark]', 'org/name')
      .option(...REPO)
      .action((name: string | undefined, flags: GroundsFlags, command: Command) => list(shell, command, name, flags)),
    'assay comparisons list assay/quick',
  )
  for (const { verb, about, run, options = [] } of VERBS) {
    const named = comparisons
      .command(verb)
      .description(about)
      .argument(
        '<names...>',
        'the benchmark, unless --repo is given; then the id, as `assay comparisons list` shows it',
      )
      .option(...REPO)
    for (const option of options) named.option(...option)
    withExample(
      named.action((names: string[], flags: VerbFlags, command: Command) => run(shell, command, names, flags)),
      `assay comparisons ${verb} assay/quick 0198c0de-0000-7000-8000-000000000000`,
    )
  }
}

const STATE = ['--state <state>', 'only those that are passed, failed, errored, …'] as const
const SETTING = ['--setting <id>', 'only those of this setting, as `show` names it'] as const
const BUDGET = ['--budget <usd>', 'a new one: at this much nothing new starts'] as const

type Verb = {
  verb: string
  about: string
  run: (shell: Shell, command: Command, names: string[], flags: VerbFlags) => Promise<void>
  options?: (readonly [string, string])[]
}

const VERBS: Verb[] = [
  { verb: 'watch', about: 'Watch a comparison; Ctrl-C leaves it running', run: watch },
  { verb: 'show', about: 'Show how a comparison stands', run: show },
  { verb: 'trials', about: 'List its trials, and why those errored that did', run: trials, options: [STATE, SETTING] },
  { verb: 'resume', about: 'Go on with a comparison that stopped', run: resume, options: [BUDGET] },
  { verb: 'cancel', about: 'Cancel what has not ended', run: cancel },
]

const REPO = ['--repo <repository>', 'owner/name, instead of a benchmark'] as const

const collect = (value: string, before: string[]): string[] => [...before, value]

async function compare(shell: Shell, command: Command, name: string | undefined, flags: CompareFlags): Promise<void> {
  const grounds = await groundsOf(flags, name)
  const service = await openService(shell, command)
  const params = { org: service.org, ...grounds.params }
  const { body: catalog } = await call(service, grounds.endpoints.catalog, { params })
  const left = leaving()
  const wish = wishOf(catalog, flags)
  const { comparison, mergedAt } = await grounds.create(service, wish)
  for (const line of knownBefore(catalog, wish, mergedAt)) note(shell, line)
  if (flags.detach) return service.json ? printJson(shell, comparison) : print(shell, comparison.id)
  note(shell, `Comparison ${comparison.id}. Ctrl-C leaves it running.`)
  await follow(shell, service, { grounds, id: comparison.id }, left)
}

function wishOf(catalog: Catalog, flags: CompareFlags): ComparisonWish {
  const sandbox = catalog.sandboxes.find(({ id, available }) =>
    flags.sandbox === undefined ? available : id === flags.sandbox,
  )
  const sandboxCredentialId = sandbox?.credentials[0]?.id
  if (!sandbox || sandboxCredentialId === undefined) throw new WrongUse(noSandbox(catalog, flags.sandbox))
  const models = flags.model.length === 0 ? ['reference'] : flags.model
  return {
    id: flags.id === undefined ? randomUUID() : requireId(flags.id, 'assay comparisons list'),
    models: models.map((text) => choiceOf(catalog, text, flags.harness)),
    sandbox: sandbox.id,
    sandboxCredentialId,
    attempts: numberOf(flags.attempts, '--attempts'),
    ...(flags.budget === undefined ? {} : { budgetUsd: numberOf(flags.budget, '--budget') }),
    ...(flags.concurrency === undefined ? {} : { concurrency: numberOf(flags.concurrency, '--concurrency') }),
    ...(flags.skipCompleted ? { skipCompleted: true } : {}),
  }
}

const noSandbox = (catalog: Catalog, wanted: string | undefined): string =>
  wanted === undefined
    ? `No sandbox is available. ${catalog.sandboxes.map(({ id, detail }) => `${id}: ${detail}`).join(' ')}`
    : `There is no sandbox ${wanted}. Known: ${catalog.sandboxes.map(({ id }) => id).join(', ')}.`

function choiceOf(catalog: Catalog, text: string, others: string | undefined) {
  const [setting = '', harnesses = others] = text.split('=')
  const [catalogId = '', reasoningLevel] = setting.split('@')
  const model = catalog.models.find((each) => each.catalogId === catalogId)
  if (!model) {
    const known = catalog.models.map((each) => each.catalogId).join(', ')
    throw new WrongUse(`The catalog has no model ${catalogId}. Known: ${known}.`)
  }
  const credentialId = model.credentials[0]?.id
  if (credentialId === undefined)
    throw new WrongUse(`No credential opens ${catalogId}: assay credentials add model ${model.provider} --name <name>`)
  const chosen = harnesses === undefined ? model.harnesses : harnesses.split(',').map((id) => id.trim())
  return { catalogId, credentialId, harnesses: chosen, ...(reasoningLevel === undefined ? {} : { reasoningLevel }) }
}

function numberOf(text: string, flag: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new WrongUse(`${flag} takes a number.`)
  return value
}

/** To its end. What was started goes on without us, so Ctrl-C is no failure. */
async function follow(shell: Shell, service: Service, { grounds, id }: Standing, left: AbortSignal): Promise<void> {
  const { endpoints, params, words } = grounds
  const last = await watchComparison(shell, service, { endpoints, params: { ...params, comparisonId: id } }, left)
  const again = `assay comparisons watch ${words} ${id}`
  if (last === undefined) return note(shell, `It goes on without you. To watch again: ${again}`)
  if (service.json) printJson(shell, last)
  else printSettings(shell, last)
  await tellErrors(shell, service, { grounds, id }, last)
  if (last.state === 'completed' && isWorthSomething(last)) return
  if (last.state !== 'completed')
    note(shell, `The comparison is ${last.state}${reasonOf(last)} To go on: assay comparisons resume ${words} ${id}`)
  throw new Failed()
}

/** Not where every trial errored. */
const isWorthSomething = ({ trials: { passed, failed, errored } }: Comparison): boolean =>
  passed + failed > 0 || errored === 0

const reasonOf = ({ submissionError, pause }: Comparison): string => {
  const message = submissionError?.message ?? pause?.message
  return message === undefined ? '.' : `: ${message}`
}

/** Of `[benchmark] <id>`. */
async function place(shell: Shell, command: Command, names: string[], flags: GroundsFlags) {
  const [id = '', benchmark, ...rest] = names.toReversed()
  const grounds = await groundsOf(flags, benchmark)
  if (rest.length > 0) throw new WrongUse('Name one comparison: the benchmark and the id, or --repo and the id.')
  const comparisonId = requireId(id, 'assay comparisons list')
  const service = await openService(shell, command)
  return { service, grounds, params: { org: service.org, ...grounds.params, comparisonId } }
}

async function watch(shell: Shell, command: Command, names: string[], flags: GroundsFlags): Promise<void> {
  const { service, grounds, params } = await place(shell, command, names, flags)
  await follow(shell, service, { grounds, id: params.comparisonId }, leaving())
}

async function show(shell: Shell, command: Command, names: string[], flags: GroundsFlags): Promise<void> {
  const { service, grounds, params } = await place(shell, command, names, flags)
  const { body } = await call(service, grounds.endpoints.read, { params })
  present(shell, service, body)
  await tellErrors(shell, service, { grounds, id: body.id }, body)
}

async function trials(shell: Shell, command: Command, names: string[], flags: VerbFlags): Promise<void> {
  const { service, grounds, params } = await place(shell, command, names, flags)
  await printTrials(shell, service, { grounds, id: params.comparisonId }, flags)
}

async function resume(shell: Shell, command: Command, names: string[], flags: VerbFlags): Promise<void> {
  const body = flags.budget === undefined ? {} : { budgetUsd: numberOf(flags.budget, '--budget') }
  const { service, grounds, params } = await place(shell, command, names, flags)
  const { body: comparison } = await call(service, grounds.endpoints.resume, { params, body })
  if (service.json) return printJson(shell, comparison)
  const again = `assay comparisons watch ${grounds.words} ${comparison.id}`
  note(shell, `The comparison is ${comparison.state}. To watch: ${again}`)
}

async function cancel(shell: Shell, command: Command, names: string[], flags: GroundsFlags): Promise<void> {
  const { service, grounds, params } = await place(shell, command, names, flags)
  present(shell, service, (await call(service, grounds.endpoints.cancel, { params })).body)
}

function present(shell: Shell, { json }: Service, comparison: Comparison): void {
  note(shell, `The comparison is ${comparison.state}${reasonOf(comparison)}`)
  if (json) printJson(shell, comparison)
  else printSettings(shell, comparison)
}

async function list(shell: Shell, command: Command, name: string | undefined, flags: GroundsFlags): Promise<void> {
  const { endpoints, params } = await groundsOf(flags, name)
  const service = await openService(shell, command)
  const { body } = await call(service, endpoints.list, { params: { org: service.org, ...params } })
  if (service.json) return printJson(shell, body)
  printTable<Comparison>(shell, body.evaluations, [
    ['ID', ({ id }) => id],
    ['STATE', ({ state }) => state],
    ['TRIALS', ({ trials }) => `${trials.passed + trials.failed + trials.errored}/${trials.total}`],
    ['COST', ({ costUsd }) => `$${costUsd.toFixed(2)}`],
    ['CREATED', ({ createdAt }) => moment(createdAt, '-')],
  ])
}

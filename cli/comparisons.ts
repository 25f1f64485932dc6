import { randomUUID } from 'node:crypto'
import type { Command } from 'commander'
import type { Catalog } from '../src/catalog/schema.ts'
import type { Comparison } from '../src/comparisons/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { partsOf } from './benchmarks.ts'
import { Failed, WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { openService, requireId, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { moment, printTable } from './table.ts'
import { leaving, printSettings, watchComparison } from './watch-comparison.ts'

type CompareFlags = {
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
  withExample(
    assay
      .command('compare')
      .description('Compare models and harnesses on a benchmark, and watch; Ctrl-C leaves it running')
      .argument('<benchmark>', 'org/name of one that was added')
      .option('--model <id[@level]>', 'from the catalog; may be repeated (default: reference)', collect, [])
      .option('--harness <names>', 'with commas between them (default: all that the model works with)')
      .option('--sandbox <name>', 'where trials run (default: the first that is available)')
      .option('--attempts <number>', 'trials of each task with each setting', '1')
      .option('--budget <usd>', 'at this much nothing new starts')
      .option('--concurrency <number>', 'trials that run at once')
      .option('--skip-completed', 'take over what was scored before')
      .option('--id <uuid>', 'the same id again is the same comparison')
      .option('--detach', 'do not watch; print the id')
      .action((name: string, flags: CompareFlags, command: Command) => compare(shell, command, name, flags)),
    'assay compare assay/quick',
    'assay compare assay/quick --model reference --harness oracle,nop --attempts 3',
  )
  const comparisons = assay.command('comparisons').description('Comparisons that were started').helpCommand(false)
  withExample(
    comparisons
      .command('list')
      .description('List the comparisons on a benchmark, newest first')
      .argument('<benchmark>', 'org/name')
      .action((name: string, _: object, command: Command) => list(shell, command, name)),
    'assay comparisons list assay/quick',
  )
  for (const { verb, about, run } of VERBS) {
    withExample(
      comparisons
        .command(verb)
        .description(about)
        .argument('<benchmark>', 'org/name')
        .argument('<id>', 'as `assay comparisons list` shows it')
        .action((name: string, id: string, _: object, command: Command) => run(shell, command, name, id)),
      `assay comparisons ${verb} assay/quick 0198c0de-0000-7000-8000-000000000000`,
    )
  }
}

const VERBS = [
  { verb: 'watch', about: 'Watch a comparison; Ctrl-C leaves it running', run: watch },
  { verb: 'show', about: 'Show how a comparison stands', run: show },
  { verb: 'resume', about: 'Go on with a comparison that stopped', run: resume },
  { verb: 'cancel', about: 'Cancel what has not ended', run: cancel },
]

const collect = (value: string, before: string[]): string[] => [...before, value]

const contract = async () => (await import('../src/comparisons/schema.ts')).inBenchmark

async function compare(shell: Shell, command: Command, name: string, flags: CompareFlags): Promise<void> {
  const service = await openService(shell, command)
  const [datasetOrg, dataset] = partsOf(name)
  const params = { org: service.org, datasetOrg, dataset }
  const endpoints = await contract()
  const { body: catalog } = await call(service, endpoints.catalog, { params })
  const left = leaving()
  const { body } = await call(service, endpoints.create, { params, body: wishOf(catalog, flags) })
  if (flags.detach) return service.json ? printJson(shell, body) : print(shell, body.id)
  await follow(shell, service, { name, id: body.id }, left)
}

function wishOf(catalog: Catalog, flags: CompareFlags) {
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

function choiceOf(catalog: Catalog, text: string, harnesses: string | undefined) {
  const [catalogId = '', reasoningLevel] = text.split('@')
  const model = catalog.models.find((each) => each.catalogId === catalogId)
  if (!model) {
    const known = catalog.models.map((each) => each.catalogId).join(', ')
    throw new WrongUse(`The catalog has no model ${catalogId}. Known: ${known}.`)
  }
  const credentialId = model.credentials[0]?.id
  if (credentialId === undefined) throw new WrongUse(`No credential opens ${catalogId}: assay credentials create.`)
  const chosen = harnesses === undefined ? model.harnesses : harnesses.split(',').map((id) => id.trim())
  return { catalogId, credentialId, harnesses: chosen, ...(reasoningLevel === undefined ? {} : { reasoningLevel }) }
}

function numberOf(text: string, flag: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value)) throw new WrongUse(`${flag} takes a number.`)
  return value
}

type Named = { name: string; id: string }

/** To its end. What was started goes on without us, so Ctrl-C is no failure. */
async function follow(shell: Shell, service: Service, { name, id }: Named, left: AbortSignal): Promise<void> {
  const [datasetOrg, dataset] = partsOf(name)
  const again = `assay comparisons watch ${name} ${id}`
  const last = await watchComparison(shell, service, { datasetOrg, dataset, comparisonId: id }, left)
  if (last === undefined) return note(shell, `It goes on without you. To watch again: ${again}`)
  if (service.json) printJson(shell, last)
  else printSettings(shell, last)
  if (last.state === 'completed') return
  note(shell, `The comparison is ${last.state}${reasonOf(last)} To go on: assay comparisons resume ${name} ${id}`)
  throw new Failed()
}

const reasonOf = ({ submissionError, pause }: Comparison): string => {
  const message = submissionError?.message ?? pause?.message
  return message === undefined ? '.' : `: ${message}`
}

async function place(shell: Shell, command: Command, name: string, id: string) {
  const [datasetOrg, dataset] = partsOf(name)
  const service = await openService(shell, command)
  const comparisonId = requireId(id, 'assay comparisons list')
  return { service, params: { org: service.org, datasetOrg, dataset, comparisonId } }
}

async function watch(shell: Shell, command: Command, name: string, id: string): Promise<void> {
  const { service } = await place(shell, command, name, id)
  await follow(shell, service, { name, id }, leaving())
}

async function show(shell: Shell, command: Command, name: string, id: string): Promise<void> {
  const { service, params } = await place(shell, command, name, id)
  present(shell, service, (await call(service, (await contract()).read, { params })).body)
}

async function resume(shell: Shell, command: Command, name: string, id: string): Promise<void> {
  const { service, params } = await place(shell, command, name, id)
  present(shell, service, (await call(service, (await contract()).resume, { params, body: {} })).body)
}

async function cancel(shell: Shell, command: Command, name: string, id: string): Promise<void> {
  const { service, params } = await place(shell, command, name, id)
  present(shell, service, (await call(service, (await contract()).cancel, { params })).body)
}

function present(shell: Shell, { json }: Service, comparison: Comparison): void {
  note(shell, `The comparison is ${comparison.state}${reasonOf(comparison)}`)
  if (json) printJson(shell, comparison)
  else printSettings(shell, comparison)
}

async function list(shell: Shell, command: Command, name: string): Promise<void> {
  const [datasetOrg, dataset] = partsOf(name)
  const service = await openService(shell, command)
  const { body } = await call(service, (await contract()).list, { params: { org: service.org, datasetOrg, dataset } })
  if (service.json) return printJson(shell, body)
  printTable<Comparison>(shell, body.evaluations, [
    ['ID', ({ id }) => id],
    ['STATE', ({ state }) => state],
    ['TRIALS', ({ trials }) => `${trials.total - trials.queued - trials.running}/${trials.total}`],
    ['COST', ({ costUsd }) => `$${costUsd.toFixed(2)}`],
    ['CREATED', ({ createdAt }) => moment(createdAt, '-')],
  ])
}

import type { Command } from 'commander'
import type { Quote } from '../src/comparisons/costs/schema.ts'
import type { Comparison } from '../src/comparisons/shapes/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { type PairFlags, printDiff, printPairs, printResults } from './comparison-answer.ts'
import { confirmQuote, formatQuote } from './comparison-quote.ts'
import { REPORT_FORMATS } from './comparison-reports.ts'
import { buildRequest, type RequestFlags, warnOfKnownTasks } from './comparison-request.ts'
import { openScope, type ScopeClient, type ScopeFlags } from './comparison-scope.ts'
import { printErrors, printFailures, printTrials, type ScopedComparison, type TrialFlags } from './comparison-trials.ts'
import type { ComparisonExportFlags } from './comparisons-export.ts'
import { resolveConfigurations } from './configuration-source.ts'
import { YES, type YesFlag } from './confirm.ts'
import { TIMEOUT_MULTIPLIER } from './engine.ts'
import { Canceled, Failed, InfrastructureFailed, WrongUse } from './failure.ts'
import { collect, parseNumber, parseOptionalNumber } from './flag-values.ts'
import { withExample } from './help.ts'
import { openService, requireId, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatTime, printTable } from './table.ts'
import { detachOnSignal, printSettings, watchComparison } from './watch-comparison.ts'

type ComparisonVerbFlags = ScopeFlags &
  TrialFlags &
  PairFlags &
  ResultFlags &
  ComparisonExportFlags & { budget?: string }
/** Options of commands that end with results. */
type ResultFlags = { failUnder?: string; format?: string }

export type CompareFlags = ScopeFlags & YesFlag & ResultFlags & RequestFlags & { detach?: boolean; quote?: boolean }

export function addComparisonCommands(assay: Command, shell: Shell): void {
  addCompare(assay, shell)
  addComparisons(assay, shell)
}

function addCompare(assay: Command, shell: Shell): void {
  withExample(
    assay
      .command('compare')
      .description(
        'Compare models and harnesses on a benchmark or on tasks of a repository. Shows a quote first and asks on a terminal; then watches, and Ctrl-C leaves it running',
      )
      .argument('[benchmark]', 'Benchmark as org/name')
      .option(...REPO)
      .option('--task <glob>', 'Only tasks whose name matches, or batch/task of a repository; repeatable', collect, [])
      .option('--limit <number>', 'Only the first tasks')
      .option(
        '--model <id[@level][=harness,…]>',
        'Model of the catalog, with its level and harnesses; repeatable (default: reference)',
        collect,
        [],
      )
      .option('--harness <names>', 'Harnesses for models that name none (default: mini, for reference oracle and nop)')
      .option(
        '--configuration <name|path>',
        'Agent configuration, a file or folder to create one from, or none; repeatable: every model runs with each',
        collect,
        [],
      )
      .option('--sandbox <name>', 'Sandbox for trials (default: the first available)')
      .option('--attempts <number>', 'Trials per task and setting', '1')
      .option('--budget <usd>', 'Start no new trials after spending this much (USD)')
      .option('--trial-budget <usd>', 'Stop a trial after spending this much (USD) and verify it as it is')
      .option(...TIMEOUT_MULTIPLIER)
      .option('--concurrency <number>', 'Maximum number of concurrent trials')
      .option('--skip-completed', 'Reuse results of earlier comparisons')
      .option('--id <uuid>', 'Id of the comparison; a repeated request with the same id has no effect')
      .option('--detach', 'Print the id and do not watch')
      .option('--quote', 'Print the quote and start nothing')
      .option(...FAIL_UNDER)
      .option(...FORMAT)
      .option(...YES)
      .action((name: string | undefined, flags: CompareFlags, command: Command) =>
        compare(shell, command, name, flags),
      ),
    'assay compare assay/quick',
    'assay compare assay/quick --attempts 3 --quote',
    'assay compare --repo lab/demo --yes',
    'assay compare assay/quick --model reference --harness oracle,nop --attempts 3',
    'assay compare assay/quick --model reference=oracle --model custom/house@high=mini --budget 5',
    'assay compare --repo lab/demo --model custom/house=claude-code --configuration none --configuration ./AGENTS.md',
  )
}

function addComparisons(assay: Command, shell: Shell): void {
  const comparisons = assay.command('comparisons').description('Manage comparisons').helpCommand(false)
  withExample(
    comparisons
      .command('list')
      .description('List the comparisons on a benchmark or a repository, newest first')
      .argument('[benchmark]', 'Benchmark as org/name')
      .option(...REPO)
      .action((name: string | undefined, flags: ScopeFlags, command: Command) => list(shell, command, name, flags)),
    'assay comparisons list assay/quick',
  )
  for (const { verb, about, run, options = [], exampleSuffix = '' } of VERBS) {
    const verbCommand = comparisons
      .command(verb)
      .description(about)
      .argument('<names...>', 'Benchmark (not with --repo) and id of the comparison, as in `assay comparisons list`')
      .option(...REPO)
    for (const option of options) verbCommand.option(...option)
    withExample(
      verbCommand.action((names: string[], flags: ComparisonVerbFlags, command: Command) =>
        run(shell, command, names, flags),
      ),
      `assay comparisons ${verb} assay/quick 0198c0de-0000-7000-8000-000000000000${exampleSuffix}`,
    )
  }
}

const STATE = ['--state <state>', 'Only trials in this state, such as passed, failed or errored'] as const
const SETTING = ['--setting <id>', 'Only trials of this setting, as named by `show`'] as const
const BASELINE = ['--baseline <id>', 'Setting to compare the others with (default: all pairs)'] as const
const FAIL_UNDER = ['--fail-under <percent>', 'Exit with 1 if a setting has a lower accuracy'] as const
const FORMAT = ['--format <format>', 'Print results as table, markdown or junit'] as const
const HTML = ['--html', 'Write HTML pages that open from disk, without the service'] as const
const OUTPUT = ['--output <folder>', 'New folder for the pages (default: comparison- and the start of the id)'] as const
const SQLITE = ['--sqlite <file>', 'Write all trials as a SQLite database'] as const
const PARQUET = ['--parquet <file>', 'Write all trials as a Parquet file'] as const
const INSPECT = ['--inspect <folder>', 'Write a log of Inspect per setting'] as const
const HARBOR = ['--harbor <folder>', 'Write a job folder of Harbor'] as const
const BUDGET = ['--budget <usd>', 'New budget: start no new trials after spending this much (USD)'] as const

type ComparisonVerb = {
  verb: string
  about: string
  run: (shell: Shell, command: Command, names: string[], flags: ComparisonVerbFlags) => Promise<void>
  options?: (readonly [string, string])[]
  /** Added to the example. */
  exampleSuffix?: string
}

const VERBS: ComparisonVerb[] = [
  { verb: 'watch', about: 'Watch a comparison; Ctrl-C leaves it running', run: watch, options: [FAIL_UNDER, FORMAT] },
  { verb: 'show', about: 'Show the status of a comparison', run: show, options: [FAIL_UNDER, FORMAT] },
  { verb: 'trials', about: 'List the trials of a comparison, with errors', run: showTrials, options: [STATE, SETTING] },
  {
    verb: 'pairs',
    about: 'Compare the settings of a comparison in pairs',
    run: showPairs,
    options: [BASELINE],
  },
  {
    verb: 'diff',
    about: 'Compare two comparisons of the same scope, setting by setting; name the older one first',
    run: showDiff,
    exampleSuffix: ' 0198c0de-0000-7000-8000-000000000001',
  },
  {
    verb: 'export',
    about: 'Write a comparison as pages, as a table of its trials, or in the format of another tool',
    run: exportToDisk,
    options: [HTML, OUTPUT, SQLITE, PARQUET, INSPECT, HARBOR],
    exampleSuffix: ' --html',
  },
  { verb: 'pause', about: 'Pause a comparison: running trials end, no other one starts', run: pause },
  { verb: 'resume', about: 'Resume a paused, failed or canceled comparison', run: resume, options: [BUDGET] },
  { verb: 'cancel', about: 'Cancel a comparison', run: cancel },
]

const REPO = ['--repo <repository>', 'Repository as owner/name, instead of a benchmark'] as const

async function compare(shell: Shell, command: Command, name: string | undefined, flags: CompareFlags): Promise<void> {
  const scope = await openScope(flags, name)
  // Reports wrong flags before anything starts.
  parseResultFlags(flags)
  await startComparison(shell, await openService(shell, command), scope, flags)
}

/** Quotes and creates a comparison, then watches it until it ends. A temporary service ends with the command. */
export async function startComparison(
  shell: Shell,
  service: Service,
  scope: ScopeClient,
  { isTemporary = false, ...flags }: CompareFlags & { isTemporary?: boolean },
): Promise<void> {
  const params = { org: service.org, ...scope.params }
  const { body: catalog } = await call(service, scope.endpoints.catalog, { params })
  const request = buildRequest(catalog, flags, await resolveConfigurations(shell, service, flags.configuration))
  const prepared = await scope.prepare(service, request)
  for (const line of warnOfKnownTasks(catalog, request, prepared.mergedAt)) note(shell, line)
  const quote = await prepared.quote()
  if (flags.quote) return service.json ? printJson(shell, quote) : print(shell, ...formatQuote(quote))
  await confirmQuote(shell, quote, flags)
  const detached = detachOnSignal()
  const comparison = await prepared.create()
  if (flags.detach) return service.json ? printJson(shell, { ...comparison, quote }) : print(shell, comparison.id)
  note(shell, `Comparison ${comparison.id}. Ctrl-C ${isTemporary ? 'cancels it' : 'leaves it running'}.`)
  await follow(shell, service, { scope, id: comparison.id, quote }, { detached, flags, isTemporary })
}

/**
 * Watches a comparison until it ends. Ctrl-C detaches without an error, because the comparison continues; on a temporary
 * service it cancels the comparison, which would otherwise continue, and cost, at the next start on the same data.
 */
async function follow(
  shell: Shell,
  service: Service,
  { scope, id, quote }: ScopedComparison & { quote?: Quote },
  { detached, flags, isTemporary = false }: { detached: AbortSignal; flags: ResultFlags; isTemporary?: boolean },
): Promise<void> {
  const { format, failUnder } = parseResultFlags(flags)
  const { endpoints, params, argument } = scope
  const lastStatus = await watchComparison(
    shell,
    service,
    { endpoints, params: { ...params, comparisonId: id } },
    detached,
  )
  const watchCommand = `assay comparisons watch ${argument} ${id}`
  if (lastStatus === undefined && isTemporary) {
    const comparisonParams = { org: service.org, ...params, comparisonId: id }
    await call(service, endpoints.cancel, { params: comparisonParams })
    note(shell, 'Canceled. Trials that had ended keep their results.')
    throw new Canceled()
  }
  if (lastStatus === undefined) return note(shell, `Still running in the background. To watch again: ${watchCommand}`)
  await printResults(shell, service, { scope, id }, lastStatus, { quote, format })
  if (isTemporary) await printFailures(shell, service, { scope, id }, lastStatus)
  await printErrors(shell, service, { scope, id }, lastStatus)
  if (lastStatus.state === 'completed' && hasResults(lastStatus)) return requireAccuracy(shell, lastStatus, failUnder)
  if (lastStatus.state !== 'completed')
    note(
      shell,
      `The comparison is ${lastStatus.state}${formatReason(lastStatus)} To resume: assay comparisons resume ${argument} ${id}`,
    )
  if (lastStatus.state === 'canceled') throw new Failed()
  throw new InfrastructureFailed('The comparison has no complete result.', { isReported: true })
}

function parseResultFlags({ failUnder, format = 'table' }: ResultFlags) {
  const knownFormat = REPORT_FORMATS.find((each) => each === format)
  if (!knownFormat) throw new WrongUse(`--format must be one of: ${REPORT_FORMATS.join(', ')}.`)
  return { format: knownFormat, failUnder: parseOptionalNumber(failUnder, '--fail-under') }
}

/** Throws `Failed` if a setting has a lower accuracy than --fail-under, or none. */
function requireAccuracy(shell: Shell, { settings }: Comparison, failUnder: number | undefined): void {
  if (failUnder === undefined) return
  const settingsBelow = settings.filter(({ accuracy }) => accuracy === null || accuracy < failUnder)
  if (settingsBelow.length === 0) return
  for (const { id, accuracy } of settingsBelow)
    note(shell, `${id} ${describeAccuracy(accuracy)}, and --fail-under is ${failUnder}.`)
  throw new Failed()
}

const describeAccuracy = (accuracy: number | null): string =>
  accuracy === null ? 'has no scored trial' : `has an accuracy of ${accuracy.toFixed(1)}`

/** Returns false if trials errored and none was scored. */
const hasResults = ({ trials: { passed, failed, errored } }: Comparison): boolean =>
  passed + failed > 0 || errored === 0

/** Formats the reason of a pause or a failed submission as the end of a sentence. */
const formatReason = ({ submissionError, pause }: Comparison): string => {
  const message = submissionError?.message ?? pause?.message
  return message === undefined ? '.' : `: ${message}`
}

/** Opens the comparison that the arguments `[benchmark] <id>` name. */
async function openComparison(shell: Shell, command: Command, names: string[], flags: ScopeFlags) {
  const [id = '', benchmark, ...rest] = names.toReversed()
  const scope = await openScope(flags, benchmark)
  if (rest.length > 0) throw new WrongUse('Give one comparison: a benchmark and an id, or --repo and an id.')
  const comparisonId = requireId(id, 'assay comparisons list')
  const service = await openService(shell, command)
  return { service, scope, params: { org: service.org, ...scope.params, comparisonId } }
}

async function watch(shell: Shell, command: Command, names: string[], flags: ComparisonVerbFlags): Promise<void> {
  const { service, scope, params } = await openComparison(shell, command, names, flags)
  await follow(shell, service, { scope, id: params.comparisonId }, { detached: detachOnSignal(), flags })
}

async function show(shell: Shell, command: Command, names: string[], flags: ComparisonVerbFlags): Promise<void> {
  const { format, failUnder } = parseResultFlags(flags)
  const { service, scope, params } = await openComparison(shell, command, names, flags)
  const { body } = await call(service, scope.endpoints.read, { params })
  note(shell, `The comparison is ${body.state}${formatReason(body)}`)
  await printResults(shell, service, { scope, id: body.id }, body, { format })
  await printErrors(shell, service, { scope, id: body.id }, body)
  requireAccuracy(shell, body, failUnder)
}

async function showTrials(shell: Shell, command: Command, names: string[], flags: ComparisonVerbFlags): Promise<void> {
  const { service, scope, params } = await openComparison(shell, command, names, flags)
  await printTrials(shell, service, { scope, id: params.comparisonId }, flags)
}

async function resume(shell: Shell, command: Command, names: string[], flags: ComparisonVerbFlags): Promise<void> {
  const body = flags.budget === undefined ? {} : { budgetUsd: parseNumber(flags.budget, '--budget') }
  const { service, scope, params } = await openComparison(shell, command, names, flags)
  const { body: comparison } = await call(service, scope.endpoints.resume, { params, body })
  if (service.json) return printJson(shell, comparison)
  const watchCommand = `assay comparisons watch ${scope.argument} ${comparison.id}`
  note(shell, `The comparison is ${comparison.state}. To watch: ${watchCommand}`)
}

async function pause(shell: Shell, command: Command, names: string[], flags: ScopeFlags): Promise<void> {
  const { service, scope, params } = await openComparison(shell, command, names, flags)
  const { body: comparison } = await call(service, scope.endpoints.pause, { params })
  if (service.json) return printJson(shell, comparison)
  const resumeCommand = `assay comparisons resume ${scope.argument} ${comparison.id}`
  note(shell, `The comparison is ${comparison.state}${formatReason(comparison)} To resume: ${resumeCommand}`)
}

async function cancel(shell: Shell, command: Command, names: string[], flags: ScopeFlags): Promise<void> {
  const { service, scope, params } = await openComparison(shell, command, names, flags)
  const { body: comparison } = await call(service, scope.endpoints.cancel, { params })
  note(shell, `The comparison is ${comparison.state}${formatReason(comparison)}`)
  if (service.json) printJson(shell, comparison)
  else printSettings(shell, comparison)
}

async function showDiff(shell: Shell, command: Command, names: string[], flags: ScopeFlags): Promise<void> {
  const [current = '', old = '', ...rest] = names.toReversed()
  const baseId = requireId(old, 'assay comparisons list')
  const { service, scope, params } = await openComparison(shell, command, [...rest.toReversed(), current], flags)
  await printDiff(shell, service, { scope, id: params.comparisonId }, baseId)
}

async function showPairs(shell: Shell, command: Command, names: string[], flags: ComparisonVerbFlags): Promise<void> {
  const { service, scope, params } = await openComparison(shell, command, names, flags)
  await printPairs(shell, service, { scope, id: params.comparisonId }, flags)
}

async function exportToDisk(
  shell: Shell,
  command: Command,
  names: string[],
  flags: ComparisonVerbFlags,
): Promise<void> {
  const { service, scope, params } = await openComparison(shell, command, names, flags)
  const { exportComparison } = await import('./comparisons-export.ts')
  await exportComparison(shell, service, { scope, id: params.comparisonId }, flags)
}

async function list(shell: Shell, command: Command, name: string | undefined, flags: ScopeFlags): Promise<void> {
  const { endpoints, params } = await openScope(flags, name)
  const service = await openService(shell, command)
  const { body } = await call(service, endpoints.list, { params: { org: service.org, ...params } })
  if (service.json) return printJson(shell, body)
  printTable<Comparison>(shell, body.evaluations, [
    ['ID', ({ id }) => id],
    ['STATE', ({ state }) => state],
    ['TRIALS', ({ trials }) => `${trials.passed + trials.failed + trials.errored}/${trials.total}`],
    ['COST', ({ costUsd }) => `$${costUsd.toFixed(2)}`],
    ['CREATED', ({ createdAt }) => formatTime(createdAt, '-')],
  ])
}

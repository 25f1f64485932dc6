import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Catalog } from '../src/catalog/schema.ts'
import { call, callWithProgress, ProblemReceived } from '../src/platform/http/client.ts'
import { parseDatasetName } from './benchmarks.ts'
import { DEFAULT_HARNESS } from './comparison-request.ts'
import { openScope, type ScopeFlags } from './comparison-scope.ts'
import { type CompareFlags, startComparison } from './comparisons.ts'
import { YES, type YesFlag } from './confirm.ts'
import { TIMEOUT_MULTIPLIER } from './engine.ts'
import { WrongUse } from './failure.ts'
import { collect, parseCount } from './flag-values.ts'
import { withExample, withGlobals } from './help.ts'
import { findServer, type NamedServer, SERVER_OPTIONS, type ServerFlags } from './model-servers.ts'
import { NO_KEY, storeKey } from './models.ts'
import { DATA, type Flags } from './operate-config.ts'
import { filterByGlob, resolveTarget, toTaskName } from './run-target.ts'
import { readGlobals, type Service } from './service.ts'
import { note, type Shell } from './shell.ts'

type RunFlags = Flags &
  YesFlag &
  ServerFlags & {
    model?: string
    harness?: string
    level?: string
    attempts: string
    budget?: string
    limit?: string
    task: string[]
    sandbox: string
    failUnder?: string
    format?: string
    timeoutMultiplier?: string
    file?: string
    printConfig?: boolean
    env: string[]
    verbose?: boolean
  }

/** Adds `assay run`, which runs one model on tasks, a dataset or a repository and starts a service if it needs one. */
export function addRunCommand(assay: Command, shell: Shell): void {
  const run = withGlobals(assay.command('run'), '--json')
    .description(
      'Run a model on a task folder, a dataset or the approved tasks of a clone. Starts what is needed; needs no key of a service',
    )
    .argument('[target]', 'Task folder, folder of task folders, dataset as org/name, or git clone')
    .option('--model <id>', 'Model of the catalog, custom/<name>, or ollama/, lmstudio/, llamacpp/ or vllm/ and a name')
    .option('--harness <name>', 'Harness (default: mini with a model, otherwise oracle, the reference solution)')
    .option('--level <level>', "Reasoning level (default: the model's)")
  for (const [flag, about] of SERVER_OPTIONS) run.option(flag, about)
  withExample(
    run
      .option('--attempts <number>', 'Trials per task', '1')
      .option('--budget <usd>', 'Maximum cost (USD): of each trial for task folders, otherwise of all together')
      .option('--task <glob>', 'Only tasks whose name matches; repeatable', collect, [])
      .option('--limit <number>', 'Only the first tasks')
      .option('--sandbox <name>', 'Sandbox: auto, docker or local', 'auto')
      .option('--fail-under <percent>', 'Exit with 1 if the accuracy is lower')
      .option('--format <format>', 'Print results of a dataset or a repository as table, markdown or junit')
      .option(...TIMEOUT_MULTIPLIER)
      .option('-f, --file <path>', 'Run file (YAML) with a key for every option, and target; options win')
      .option('--print-config', 'Print the run file of this command and start nothing')
      .option('--env <name=value>', 'Variable that a task folder requires; repeatable', collect, [])
      .option('--verbose', 'Show why no other sandbox was selected')
      .option(...YES)
      .option(...DATA)
      .action((target: string | undefined, flags: RunFlags, command: Command) =>
        runWithFile(shell, command, target, flags),
      ),
    'assay run ./my-task --model ollama/qwen3',
    'assay run assay/quick --model anthropic/claude-sonnet-5 --harness claude-code --budget 5',
    'assay run . --model custom/house',
    'assay run -f assay.yaml --limit 5',
  )
}

/** Applies the run file, if there is one, and runs the target. With --print-config it only prints the run file. */
async function runWithFile(
  shell: Shell,
  command: Command,
  targetArgument: string | undefined,
  { file }: RunFlags,
): Promise<void> {
  const { applyRunFile, formatRunFile } = await import('./run-file.ts')
  const targetOfFile = file === undefined ? undefined : await applyRunFile(command, file)
  const target = targetArgument ?? targetOfFile
  if (target === undefined) throw new WrongUse('Name a target: a task folder, a dataset as org/name, or a git clone.')
  const flags = command.opts<RunFlags>()
  if (!flags.printConfig) return runTarget(shell, command, target, flags)
  shell.output.write(formatRunFile(command, target, { harness: chooseHarness(flags) }))
}

const chooseHarness = ({ harness, model }: RunFlags): string =>
  harness ?? (model === undefined ? 'oracle' : DEFAULT_HARNESS)

async function runTarget(shell: Shell, command: Command, text: string, flags: RunFlags): Promise<void> {
  const attempts = parseCount(flags.attempts, '--attempts')
  const limit = flags.limit === undefined ? undefined : parseCount(flags.limit, '--limit')
  const budgetUsd = flags.budget === undefined ? undefined : parseAmount(flags.budget, '--budget')
  const failUnder = flags.failUnder === undefined ? undefined : parseAmount(flags.failUnder, '--fail-under')
  const server = flags.model === undefined ? undefined : findServer(shell, flags.model, flags)
  const harness = chooseHarness(flags)
  const isJson = readGlobals(command).json ?? false
  const target = await resolveTarget(text)
  if (target.kind === 'tasks') {
    const folders = filterByGlob(target.folders, (folder) => [toTaskName(folder)], flags.task).slice(0, limit)
    const { runTasks } = await import('./run-tasks.ts')
    const { model, level } = flags
    return runTasks(shell, { folders, attempts, harness, model, server, level, budgetUsd, failUnder, isJson, flags })
  }
  await runOnService(shell, { target, flags: { ...flags, harness }, server, limit, isJson })
}

type ServiceRun = {
  target: Exclude<Awaited<ReturnType<typeof resolveTarget>>, { kind: 'tasks' }>
  flags: RunFlags & { harness: string }
  server: NamedServer | undefined
  limit: number | undefined
  isJson: boolean
}

/** Runs a comparison with one setting on a temporary service, which uses the same data folder as `assay serve`. */
async function runOnService(shell: Shell, { target, flags, server, limit, isJson }: ServiceRun): Promise<void> {
  const { openTemporaryService } = await import('./temporary-service.ts')
  await using opened = await openTemporaryService(shell, flags, isJson)
  const { service, dataFolder } = opened
  const model = server ? await addServerModel(service, server) : flags.model
  if (target.kind === 'dataset') await addDataset(shell, service, target.name)
  const [name = ''] = target.name.split('@')
  const tasks = target.kind === 'dataset' ? [] : await listTaskRefs(service, name, flags.task, limit)
  const filters: ScopeFlags = { task: flags.task }
  if (flags.limit !== undefined) filters.limit = flags.limit
  const scope =
    target.kind === 'dataset' ? await openScope(filters, name) : await openScope({ repo: name, task: tasks }, undefined)
  const { body: catalog } = await call(service, scope.endpoints.catalog, {
    params: { org: service.org, ...scope.params },
  })
  await waitForSandbox(service, scope, catalog)
  await startComparison(shell, service, scope, { ...toCompareFlags(flags, model), isTemporary: true })
  note(
    shell,
    `Details are in ${dataFolder}: assay serve --data ${dataFolder}, then assay comparisons list ${scope.argument}`,
  )
}

function toCompareFlags(flags: ServiceRun['flags'], model: string | undefined): CompareFlags {
  const { level, harness, sandbox, attempts, budget, failUnder, format, yes, timeoutMultiplier } = flags
  const setting = model === undefined ? [] : [`${model}${level === undefined ? '' : `@${level}`}`]
  const compareFlags: CompareFlags = { model: setting, configuration: [], harness, attempts }
  if (sandbox !== 'auto') compareFlags.sandbox = sandbox
  if (budget !== undefined) compareFlags.budget = budget
  if (failUnder !== undefined) compareFlags.failUnder = failUnder
  if (format !== undefined) compareFlags.format = format
  if (yes !== undefined) compareFlags.yes = yes
  if (timeoutMultiplier !== undefined) compareFlags.timeoutMultiplier = timeoutMultiplier
  return compareFlags
}

/** Adds a custom model for a model server. A second run with the same server and model reuses it. */
async function addServerModel(service: Service, { name, baseUrl, protocol, apiKey }: NamedServer): Promise<string> {
  const { addModel } = await import('../src/catalog/schema.ts')
  const slug = `${new URL(baseUrl).host}-${name}`
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .slice(0, 60)
  const body = {
    catalogId: `custom/${slug}`,
    name,
    label: name,
    protocol,
    baseUrl,
    reasoningLevels: ['none' as const],
    defaultReasoningLevel: 'none' as const,
    prices: { input: 0, output: 0 },
  }
  const { body: model } = await call(service, addModel, { params: { org: service.org }, body })
  await storeKey(service, model, apiKey ?? NO_KEY)
  return model.catalogId
}

/** Adds a dataset as a benchmark, unless the workspace has it and the reference names no version. */
async function addDataset(shell: Shell, service: Service, reference: string): Promise<void> {
  const { addBenchmark, readBenchmark } = await import('../src/benchmarks/schema.ts')
  const [name = ''] = reference.split('@')
  const [datasetOrg, dataset] = parseDatasetName(name)
  const params = { org: service.org, datasetOrg, dataset }
  const isAdded = await call(service, readBenchmark, { params }).then(
    () => true,
    (error: unknown) => {
      if (error instanceof ProblemReceived && error.problem.status === 404) return false
      throw error
    },
  )
  if (isAdded && name === reference) return
  note(shell, `Adding ${reference}.`)
  await callWithProgress(service, addBenchmark, { params: { org: service.org }, body: { reference } }, () => {})
}

/** Lists the approved tasks of a repository that match, as `batch/task`. */
async function listTaskRefs(service: Service, repository: string, globs: string[], limit: number | undefined) {
  const { inRepository } = await import('../src/comparisons/schema.ts')
  const [owner = '', name = ''] = repository.split('/')
  const params = { org: service.org, owner, name }
  const { body } = await call(service, inRepository.options, { params }).catch((error: unknown) => {
    if (!(error instanceof ProblemReceived) || error.problem.status !== 404) throw error
    throw new WrongUse(
      `${repository} is not connected. Connect it with assay repos connect ${repository}, and create tasks with assay batches create.`,
    )
  })
  if (body.tasks.length === 0)
    throw new WrongUse(`No task of ${repository} is approved. Approve tasks with assay batches approve.`)
  const chosenTasks = filterByGlob(body.tasks, ({ taskId }) => [taskId], globs).slice(0, limit)
  return chosenTasks.map(({ runId, taskId }) => `${runId}/${taskId}`)
}

const SANDBOX_WAIT_MAX_MS = 60_000
const POLL_MS = 250

/** Waits until the worker of a new service has tested its sandboxes and one is available, at most a minute. */
async function waitForSandbox(
  service: Service,
  { endpoints, params }: Awaited<ReturnType<typeof openScope>>,
  initialCatalog: Catalog,
): Promise<void> {
  const deadline = Date.now() + SANDBOX_WAIT_MAX_MS
  let catalog = initialCatalog
  while (!catalog.sandboxes.some(({ available }) => available) && Date.now() < deadline) {
    await wait(POLL_MS)
    catalog = (await call(service, endpoints.catalog, { params: { org: service.org, ...params } })).body
  }
}

function parseAmount(text: string, flag: string): number {
  const value = Number(text)
  if (text.trim() !== '' && Number.isFinite(value) && value >= 0) return value
  throw new WrongUse(`${flag} must be a number from 0 up.`)
}

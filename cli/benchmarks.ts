import type { Command } from 'commander'
import type {
  AddProgress,
  Benchmark,
  BenchmarkFinding,
  BenchmarkTask,
  BenchmarkTaskFiles,
} from '../src/benchmarks/schema.ts'
import { call, callWithProgress, download, ProblemReceived } from '../src/platform/http/client.ts'
import { requireConfirmation, YES, type YesFlag } from './confirm.ts'
import { Failed, WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import type { Flags } from './operate-config.ts'
import { createProgressBar, formatBytes } from './progress.ts'
import { collectPages, openService, readGlobals } from './service.ts'
import { note, print, printJson, type Shell, styled } from './shell.ts'
import { formatTime, printFacts, printTable } from './table.ts'

const DATA = ['--data <folder>', 'Use this data folder; no service may be running on it'] as const

export function addBenchmarksCommands(assay: Command, shell: Shell): void {
  const benchmarks = assay.command('benchmarks').description('Manage the datasets of the workspace').helpCommand(false)
  withExample(
    benchmarks
      .command('add')
      .description('Download a dataset, check every task and add it; adds nothing if a task fails the check')
      .argument('<reference>', 'Dataset as org/name, optionally with @ and a tag, a revision or a sha256: digest')
      .option('--calibrate', 'Then calibrate every task on a worker: reference solution, no-op and known cheats')
      .option(...DATA)
      .action((reference: string, flags: AddBenchmarkFlags, command: Command) => add(shell, command, flags, reference)),
    'assay benchmarks add assay/quick',
    'assay benchmarks add terminal-bench/terminal-bench-2@latest',
  )
  withExample(
    benchmarks
      .command('list')
      .description('List the benchmarks of the workspace, newest first')
      .option(...DATA)
      .action((flags: Flags, command: Command) => list(shell, command, flags)),
    'assay benchmarks list',
  )
  withExample(
    benchmarks
      .command('show')
      .description('Show a benchmark with its tasks and warnings')
      .argument('<name>', 'Benchmark as org/name')
      .option(...DATA)
      .action((name: string, flags: Flags, command: Command) => show(shell, command, flags, name)),
    'assay benchmarks show assay/quick',
  )
  addFilesCommand(benchmarks, shell)
  withExample(
    benchmarks
      .command('remove')
      .description('Remove a benchmark; its comparisons stay')
      .argument('<name>', 'Benchmark as org/name')
      .option(...YES)
      .option(...DATA)
      .action((name: string, flags: RemoveBenchmarkFlags, command: Command) => remove(shell, command, flags, name)),
    'assay benchmarks remove assay/quick',
  )
}

function addFilesCommand(benchmarks: Command, shell: Shell): void {
  withExample(
    benchmarks
      .command('files')
      .description('List the files of a task, or print one of them')
      .argument('<name>', 'org/name of the benchmark')
      .argument('<task>', 'org/name of the task')
      .argument('[path]', 'File to print')
      .action((name: string, task: string, path: string | undefined, _: Flags, command: Command) =>
        printFiles(shell, command, { name, task, path }),
      ),
    'assay benchmarks files assay/quick assay/greet-in-bash',
    'assay benchmarks files assay/quick assay/greet-in-bash instruction.md',
  )
}

type AddBenchmarkRequest = { reference: string; calibrate: boolean }

/** Operations on benchmarks, implemented by the service's API and on a data folder. */
type BenchmarkOperations = {
  add(request: AddBenchmarkRequest, onProgress: (progress: AddProgress) => void): Promise<Benchmark>
  list(): Promise<Benchmark[]>
  read(datasetOrg: string, dataset: string): Promise<Benchmark & { taskList: BenchmarkTask[] }>
  remove(datasetOrg: string, dataset: string): Promise<void>
}

async function withBenchmarks<T>(
  shell: Shell,
  command: Command,
  flags: Flags,
  work: (benchmarks: BenchmarkOperations) => Promise<T>,
): Promise<T> {
  if (flags.data === undefined) return work(await openServiceOperations(shell, command))
  const { withDataFolder } = await import('./operate-benchmarks.ts')
  return withDataFolder(shell, command, flags, work)
}

async function openServiceOperations(shell: Shell, command: Command): Promise<BenchmarkOperations> {
  const service = await openService(shell, command)
  const contract = await import('../src/benchmarks/schema.ts')
  const { org } = service
  return {
    add: (body, onProgress) => callWithProgress(service, contract.addBenchmark, { params: { org }, body }, onProgress),
    list: async () => {
      const { items } = await collectPages(async (query) => {
        const { body } = await call(service, contract.listBenchmarks, { params: { org }, query })
        return { items: body.benchmarks, nextCursor: body.nextCursor }
      })
      return items
    },
    read: async (datasetOrg, dataset) =>
      (await call(service, contract.readBenchmark, { params: { org, datasetOrg, dataset } })).body,
    remove: async (datasetOrg, dataset) => {
      await call(service, contract.removeBenchmark, { params: { org, datasetOrg, dataset } })
    },
  }
}

type AddBenchmarkFlags = Flags & { calibrate?: boolean }

async function add(shell: Shell, command: Command, flags: AddBenchmarkFlags, reference: string): Promise<void> {
  if (flags.calibrate && flags.data !== undefined)
    throw new WrongUse('--calibrate needs a service with workers and cannot be used with --data.')
  const request = { reference, calibrate: flags.calibrate ?? false }
  const bar = createProgressBar(shell)
  const onProgress = ({ done, total, bytes }: AddProgress) => bar.show(done, total, `tasks, ${formatBytes(bytes)}`)
  const benchmark = await withBenchmarks(shell, command, flags, (benchmarks) => benchmarks.add(request, onProgress))
    .catch((error: unknown) => {
      bar.end()
      throw reportFindings(shell, error)
    })
    .finally(() => bar.end())
  if (readGlobals(command).json) return printJson(shell, benchmark)
  const { datasetOrg, dataset, tasks, check } = benchmark
  const name = `${datasetOrg}/${dataset}`
  note(shell, `${name} added: ${tasks} tasks, all checked.${describeWarnings(name, check.warnings.length)}`)
  print(shell, benchmark.digest)
}

const describeWarnings = (name: string, warnings: number): string =>
  warnings === 0 ? '' : ` ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}: assay benchmarks show ${name}`

/** Prints the findings of a refusal and returns the error to throw. Other errors are returned unchanged. */
function reportFindings(shell: Shell, error: unknown): unknown {
  const findings = listFindings(error)
  if (findings.length === 0) return error
  note(
    shell,
    styled(shell.errors, 'red', error instanceof Error ? error.message : 'The dataset did not pass the check.'),
  )
  for (const finding of findings.filter(({ severity }) => severity === 'block')) note(shell, formatFinding(finding))
  return new Failed()
}

function listFindings(error: unknown): BenchmarkFinding[] {
  if (error instanceof ProblemReceived && 'findings' in error.problem) return toFindings(error.problem.findings)
  // Problems of a command with --data come from this process, not from a service.
  if (!(error instanceof Error) || !('extra' in error)) return []
  const { members } = Object(error.extra)
  return toFindings(members?.findings)
}

const toFindings = (value: unknown): BenchmarkFinding[] => (Array.isArray(value) ? value : [])

const formatFinding = ({ task, rule, path, detail }: BenchmarkFinding): string =>
  `  ${[task, path].filter((text) => text).join(' ')}: ${detail} (${rule})`

async function list(shell: Shell, command: Command, flags: Flags): Promise<void> {
  const benchmarks = await withBenchmarks(shell, command, flags, (all) => all.list())
  if (readGlobals(command).json) return printJson(shell, { benchmarks })
  printTable<Benchmark>(shell, benchmarks, [
    ['BENCHMARK', ({ datasetOrg, dataset }) => `${datasetOrg}/${dataset}`],
    ['VERSION', ({ resolvedRef }) => resolvedRef],
    ['TASKS', ({ tasks }) => String(tasks)],
    ['WARNINGS', ({ check }) => String(check.warnings.length)],
    ['ADDED', ({ addedAt }) => formatTime(addedAt, '-')],
  ])
}

async function show(shell: Shell, command: Command, flags: Flags, name: string): Promise<void> {
  const [datasetOrg, dataset] = parseDatasetName(name)
  const benchmark = await withBenchmarks(shell, command, flags, (all) => all.read(datasetOrg, dataset))
  if (readGlobals(command).json) return printJson(shell, benchmark)
  printFacts(shell, [
    ['benchmark', `${benchmark.datasetOrg}/${benchmark.dataset}`],
    ['reference', benchmark.reference],
    ['version', benchmark.resolvedRef],
    ['digest', benchmark.digest],
    ['about', benchmark.description],
    ['check', `passed, rules ${benchmark.check.ruleset}`],
    ['added', formatTime(benchmark.addedAt, '-')],
  ])
  print(shell, '')
  printTable<BenchmarkTask>(shell, benchmark.taskList, [
    ['TASK', (task) => task.name],
    ['DIGEST', ({ digest }) => digest],
    ['VERIFY MODE', ({ calibration }) => calibration?.verifyMode ?? '-'],
    ['STRENGTH', ({ calibration }) => calibration?.strength ?? calibration?.error ?? '-'],
  ])
  for (const finding of benchmark.check.warnings) note(shell, formatFinding(finding))
}

type TaskFileRequest = { name: string; task: string; path: string | undefined }

async function printFiles(shell: Shell, command: Command, { name, task, path }: TaskFileRequest): Promise<void> {
  const [datasetOrg, dataset] = parseDatasetName(name)
  const [taskOrg, taskName] = parseDatasetName(task)
  const service = await openService(shell, command)
  const params = { org: service.org, datasetOrg, dataset, taskOrg, task: taskName }
  const contract = await import('../src/benchmarks/schema.ts')
  if (path !== undefined) {
    const { bytes } = await download(service, contract.readBenchmarkTaskFile, { params: { ...params, path } })
    return print(shell, ...new TextDecoder().decode(bytes).replace(/\n$/, '').split('\n'))
  }
  const { body } = await call(service, contract.listBenchmarkTaskFiles, { params })
  if (service.json) return printJson(shell, body)
  printTable<BenchmarkTaskFiles['files'][number]>(shell, body.files, [
    ['PATH', (file) => file.path],
    ['SIZE', ({ bytes }) => formatBytes(bytes)],
  ])
  if (body.total > body.files.length) note(shell, `The first ${body.files.length} of ${body.total} files.`)
}

type RemoveBenchmarkFlags = Flags & YesFlag

async function remove(shell: Shell, command: Command, flags: RemoveBenchmarkFlags, name: string): Promise<void> {
  const [datasetOrg, dataset] = parseDatasetName(name)
  await requireConfirmation(shell, `Remove ${name}? Its comparisons stay.`, flags)
  await withBenchmarks(shell, command, flags, (all) => all.remove(datasetOrg, dataset))
  if (!readGlobals(command).json) note(shell, `Removed ${name}.`)
}

export function parseDatasetName(name: string): [string, string] {
  const [datasetOrg = '', dataset = '', ...rest] = name.split('/')
  if (datasetOrg === '' || dataset === '' || rest.length > 0) throw new WrongUse('Give the name as org/name.')
  return [datasetOrg, dataset]
}

import type { Command } from 'commander'
import type { AddProgress, Benchmark, BenchmarkFinding, BenchmarkTask } from '../src/benchmarks/schema.ts'
import { call, callWithProgress, ProblemReceived } from '../src/platform/http/client.ts'
import { confirmed, YES, type YesFlag } from './confirm.ts'
import { Failed, WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import type { Flags } from './operate-config.ts'
import { byteCount, progressBar } from './progress.ts'
import { globalsOf, listAll, openService } from './service.ts'
import { note, print, printJson, type Shell, styled } from './shell.ts'
import { moment, printFacts, printTable } from './table.ts'

const DATA = ['--data <folder>', 'work on this data folder, where no service runs'] as const

export function addBenchmarksCommands(assay: Command, shell: Shell): void {
  const benchmarks = assay.command('benchmarks').description('Datasets that were added').helpCommand(false)
  withExample(
    benchmarks
      .command('add')
      .description('Download a dataset, check every task and add it; or say what is wrong, and add nothing')
      .argument('<reference>', 'org/name, or org/name@ with a tag, a revision or a sha256: digest')
      .option('--calibrate', 'afterwards have a worker try every task: its solution, nothing, and known cheats')
      .option(...DATA)
      .action((reference: string, flags: AddFlags, command: Command) => add(shell, command, flags, reference)),
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
      .description('Show a benchmark with its tasks and what the check noted')
      .argument('<name>', 'org/name')
      .option(...DATA)
      .action((name: string, flags: Flags, command: Command) => show(shell, command, flags, name)),
    'assay benchmarks show assay/quick',
  )
  withExample(
    benchmarks
      .command('remove')
      .description('Remove a benchmark; comparisons on it stay')
      .argument('<name>', 'org/name')
      .option(...YES)
      .option(...DATA)
      .action((name: string, flags: RemoveFlags, command: Command) => remove(shell, command, flags, name)),
    'assay benchmarks remove assay/quick',
  )
}

type AddWish = { reference: string; calibrate: boolean }

/** The same four things, whether a service does them or we do. */
type Benchmarks = {
  add(wish: AddWish, onProgress: (progress: AddProgress) => void): Promise<Benchmark>
  list(): Promise<Benchmark[]>
  read(datasetOrg: string, dataset: string): Promise<Benchmark & { taskList: BenchmarkTask[] }>
  remove(datasetOrg: string, dataset: string): Promise<void>
}

async function withBenchmarks<T>(
  shell: Shell,
  command: Command,
  flags: Flags,
  work: (benchmarks: Benchmarks) => Promise<T>,
): Promise<T> {
  if (flags.data === undefined) return work(await atService(shell, command))
  const { onDataFolder } = await import('./operate-benchmarks.ts')
  return onDataFolder(shell, command, flags, work)
}

async function atService(shell: Shell, command: Command): Promise<Benchmarks> {
  const service = await openService(shell, command)
  const contract = await import('../src/benchmarks/schema.ts')
  const { org } = service
  return {
    add: (body, onProgress) => callWithProgress(service, contract.addBenchmark, { params: { org }, body }, onProgress),
    list: async () => {
      const { items } = await listAll(async (query) => {
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

type AddFlags = Flags & { calibrate?: boolean }

async function add(shell: Shell, command: Command, flags: AddFlags, reference: string): Promise<void> {
  if (flags.calibrate && flags.data !== undefined) throw new WrongUse('--calibrate needs a service, which has workers.')
  const wish = { reference, calibrate: flags.calibrate ?? false }
  const bar = progressBar(shell)
  const onProgress = ({ done, total, bytes }: AddProgress) => bar.show(done, total, `tasks, ${byteCount(bytes)}`)
  const benchmark = await withBenchmarks(shell, command, flags, (benchmarks) => benchmarks.add(wish, onProgress))
    .catch((error: unknown) => {
      bar.end()
      throw explained(shell, error)
    })
    .finally(() => bar.end())
  if (globalsOf(command).json) return printJson(shell, benchmark)
  const { datasetOrg, dataset, tasks, check } = benchmark
  const name = `${datasetOrg}/${dataset}`
  note(shell, `${name} is added: ${tasks} tasks, all checked.${noted(name, check.warnings.length)}`)
  print(shell, benchmark.digest)
}

const noted = (name: string, warnings: number): string =>
  warnings === 0
    ? ''
    : ` The check noted ${warnings} ${warnings === 1 ? 'thing' : 'things'}: assay benchmarks show ${name}`

/** A refusal comes with its reasons, which are more than one line. */
function explained(shell: Shell, error: unknown): unknown {
  const findings = findingsIn(error)
  if (findings.length === 0) return error
  note(shell, styled(shell.errors, 'red', error instanceof Error ? error.message : 'It did not pass.'))
  for (const finding of findings.filter(({ severity }) => severity === 'block')) note(shell, lineOf(finding))
  return new Failed()
}

function findingsIn(error: unknown): BenchmarkFinding[] {
  if (error instanceof ProblemReceived && 'findings' in error.problem) return asFindings(error.problem.findings)
  if (!(error instanceof Error) || !('extra' in error)) return []
  const { members } = Object(error.extra)
  return asFindings(members?.findings)
}

const asFindings = (value: unknown): BenchmarkFinding[] => (Array.isArray(value) ? value : [])

const lineOf = ({ task, rule, path, detail }: BenchmarkFinding): string =>
  `  ${[task, path].filter((text) => text).join(' ')}: ${detail} (${rule})`

async function list(shell: Shell, command: Command, flags: Flags): Promise<void> {
  const benchmarks = await withBenchmarks(shell, command, flags, (all) => all.list())
  if (globalsOf(command).json) return printJson(shell, { benchmarks })
  printTable<Benchmark>(shell, benchmarks, [
    ['BENCHMARK', ({ datasetOrg, dataset }) => `${datasetOrg}/${dataset}`],
    ['VERSION', ({ resolvedRef }) => resolvedRef],
    ['TASKS', ({ tasks }) => String(tasks)],
    ['NOTED', ({ check }) => String(check.warnings.length)],
    ['ADDED', ({ addedAt }) => moment(addedAt, '-')],
  ])
}

async function show(shell: Shell, command: Command, flags: Flags, name: string): Promise<void> {
  const [datasetOrg, dataset] = partsOf(name)
  const benchmark = await withBenchmarks(shell, command, flags, (all) => all.read(datasetOrg, dataset))
  if (globalsOf(command).json) return printJson(shell, benchmark)
  printFacts(shell, [
    ['benchmark', `${benchmark.datasetOrg}/${benchmark.dataset}`],
    ['reference', benchmark.reference],
    ['version', benchmark.resolvedRef],
    ['digest', benchmark.digest],
    ['about', benchmark.description],
    ['check', `passed, rules ${benchmark.check.ruleset}`],
    ['added', moment(benchmark.addedAt, '-')],
  ])
  print(shell, '')
  printTable<BenchmarkTask>(shell, benchmark.taskList, [
    ['TASK', (task) => task.name],
    ['DIGEST', ({ digest }) => digest],
    ['VERIFIED IN', ({ calibration }) => calibration?.verifyMode ?? '-'],
    ['WORTH', ({ calibration }) => calibration?.strength ?? calibration?.error ?? '-'],
  ])
  for (const finding of benchmark.check.warnings) note(shell, lineOf(finding))
}

type RemoveFlags = Flags & YesFlag

async function remove(shell: Shell, command: Command, flags: RemoveFlags, name: string): Promise<void> {
  const [datasetOrg, dataset] = partsOf(name)
  await confirmed(shell, `Remove ${name}? Comparisons on it stay.`, flags)
  await withBenchmarks(shell, command, flags, (all) => all.remove(datasetOrg, dataset))
  if (!globalsOf(command).json) note(shell, `${name} is removed.`)
}

export function partsOf(name: string): [string, string] {
  const [datasetOrg = '', dataset = '', ...rest] = name.split('/')
  if (datasetOrg === '' || dataset === '' || rest.length > 0) throw new WrongUse('Name it as org/name.')
  return [datasetOrg, dataset]
}

import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Instrumenter } from '@stryker-mutator/instrumenter'
import { createVitest, type TestModule, type Vitest } from 'vitest/node'
import { ROOT } from '../files.ts'
import type { MutationGroup } from './groups.ts'
import type { TestedMutant } from './report.ts'

const RUNNER_FILE = fileURLToPath(new URL('runner.ts', import.meta.url))
const INSTRUMENTER_OPTIONS = { plugins: null, excludedMutations: [], ignorers: [] }

/**
 * Tests all mutants of a group. All mutants are compiled into the files, each behind a switch, so that one process can run
 * a test with every mutant that the test executes. Static mutants, executed while a module is imported, need a run each.
 */
export async function runGroup(group: MutationGroup): Promise<TestedMutant[]> {
  const sources = group.files.map((file) => ({
    name: join(ROOT, file),
    mutate: true,
    content: readFileSync(join(ROOT, file), 'utf8'),
  }))
  const { files, mutants } = await new Instrumenter(SILENT_LOGGER).instrument(sources, INSTRUMENTER_OPTIONS)
  const folder = mkdtempSync(join(tmpdir(), 'assay-mutate-'))
  const vitest = await openVitest(group, new Map(files.map(({ name, content }) => [name, content])))
  try {
    vitest.provide('mutationFolder', folder)
    await runTests(vitest, folder)
    for (const [mutant, testFiles] of listLivingStaticMutants(folder))
      await runTests(vitest, folder, { mutant, testFiles })
    const killed = new Set(readLines(folder, 'killed'))
    return mutants.map(({ id, fileName, location: { start, end }, replacement }) => {
      const lines = sources.find(({ name }) => name === fileName)?.content.split('\n') ?? []
      return {
        file: fileName.slice(ROOT.length),
        line: start.line + 1,
        lineText: lines[start.line] ?? '',
        code: sliceText(lines, start, end),
        replacement,
        isKilled: killed.has(id),
      }
    })
  } finally {
    await vitest.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

function openVitest({ tests }: MutationGroup, instrumented: ReadonlyMap<string, string>): Promise<Vitest> {
  const plugin = { name: 'mutants', enforce: 'pre' as const, load: (id: string) => instrumented.get(id) }
  const options = {
    root: ROOT,
    config: false as const,
    include: [...tests],
    watch: false,
    reporters: [{}],
    runner: RUNNER_FILE,
    maxWorkers: 2,
    testTimeout: 3_600_000,
    // The cache is keyed by the source file: it would mix instrumented modules with original ones.
    fsModuleCache: false,
  }
  return createVitest('test', options, { plugins: [plugin] })
}

/**
 * Runs the tests of the group once, with all mutants that they execute, or the given test files with one static mutant.
 * Throws if a test fails without a mutant. Which mutants were killed is written to the folder.
 */
async function runTests(
  vitest: Vitest,
  folder: string,
  { mutant: onlyMutant = '', testFiles }: { mutant?: string; testFiles?: ReadonlySet<string> } = {},
): Promise<void> {
  vitest.provide('onlyMutant', onlyMutant)
  const allTests = await vitest.globTestSpecifications()
  const chosenTests = allTests.filter(({ moduleId }) => testFiles?.has(moduleId) ?? true)
  const { testModules } = await vitest.runTestSpecifications(chosenTests, true)
  const failures = testModules.filter((module) => !module.ok()).flatMap(listFailures)
  // The runner catches failures of tests with a mutant. A failure here means that the file could not be imported.
  if (onlyMutant !== '' && failures.length > 0) appendFileSync(join(folder, 'killed'), `${onlyMutant}\n`)
  if (onlyMutant === '' && failures.length > 0)
    throw new Error(
      `Tests fail without a mutant, or after mutants that changed the state of a module:\n${failures.join('\n')}`,
    )
}

function listFailures(module: TestModule): string[] {
  const errors = [...module.children.allTests('failed')].flatMap((test) => test.result().errors ?? [])
  return [...module.errors(), ...errors].map(({ message }) => `${module.relativeModuleId}: ${message}`)
}

/** Returns the static mutants that were not killed yet, with the test files that imported them. */
function listLivingStaticMutants(folder: string): Map<string, ReadonlySet<string>> {
  const killed = new Set(readLines(folder, 'killed'))
  // Each line is the id of a mutant, a space and the path of a test file.
  const imports = readLines(folder, 'static').map((line) => {
    const [mutant = ''] = line.split(' ', 1)
    return { mutant, testFile: line.slice(mutant.length + 1) }
  })
  const livingImports = imports.filter(({ mutant }) => !killed.has(mutant))
  const importsByMutant = Map.groupBy(livingImports, ({ mutant }) => mutant)
  return new Map(
    [...importsByMutant].map(([mutant, entries]) => [mutant, new Set(entries.map(({ testFile }) => testFile))]),
  )
}

function readLines(folder: string, name: string): string[] {
  const path = join(folder, name)
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
}

/** A position in a text. Both numbers begin at 0. */
type Position = { line: number; column: number }

/** Returns the text between two positions. */
function sliceText(lines: readonly string[], start: Position, end: Position): string {
  const slicedLines = lines.slice(start.line, end.line + 1)
  const lastIndex = slicedLines.length - 1
  return slicedLines
    .map((line, index) => line.slice(index === 0 ? start.column : 0, index === lastIndex ? end.column : undefined))
    .join('\n')
}

const isDisabled = (): boolean => false
const ignore = (): void => {}
/** A logger for the instrumenter that writes nothing. */
const SILENT_LOGGER = {
  isTraceEnabled: isDisabled,
  isDebugEnabled: isDisabled,
  isInfoEnabled: isDisabled,
  isWarnEnabled: isDisabled,
  isErrorEnabled: isDisabled,
  isFatalEnabled: isDisabled,
  trace: ignore,
  debug: ignore,
  info: ignore,
  warn: ignore,
  error: ignore,
  fatal: ignore,
}

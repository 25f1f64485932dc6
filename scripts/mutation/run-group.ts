import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Instrumenter } from '@stryker-mutator/instrumenter'
import { createVitest, type TestModule, type Vitest } from 'vitest/node'
import { ROOT } from '../files.ts'
import type { MutationGroup } from './groups.ts'
import type { TestedMutant } from './report.ts'

const RUNNER = fileURLToPath(new URL('runner.ts', import.meta.url))
const INSTRUMENTER_OPTIONS = { plugins: null, excludedMutations: [], ignorers: [] }

/**
 * Tests all mutants of a group. They are compiled into the files together, each behind a switch, so that a test runs
 * all of its mutants in one process. Mutants that are executed while a module is imported need a process each.
 */
export async function runGroup(group: MutationGroup): Promise<TestedMutant[]> {
  const sources = group.files.map((file) => ({
    name: join(ROOT, file),
    mutate: true,
    content: readFileSync(join(ROOT, file), 'utf8'),
  }))
  const { files, mutants } = await new Instrumenter(SILENT).instrument(sources, INSTRUMENTER_OPTIONS)
  const folder = mkdtempSync(join(tmpdir(), 'assay-mutate-'))
  const vitest = await openVitest(group, new Map(files.map(({ name, content }) => [name, content])))
  try {
    vitest.provide('mutationFolder', folder)
    await runTests(vitest, folder)
    const pending = staticMutants(folder)
    for (const [mutant, testFiles] of pending) await runTests(vitest, folder, { mutant, testFiles })
    const killed = new Set(linesIn(folder, 'killed'))
    return mutants.map(({ id, fileName, location: { start, end }, replacement }) => {
      const lines = sources.find(({ name }) => name === fileName)?.content.split('\n') ?? []
      return {
        file: fileName.slice(ROOT.length),
        line: start.line + 1,
        text: lines[start.line] ?? '',
        code: textBetween(lines, start, end),
        becomes: replacement,
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
    runner: RUNNER,
    maxWorkers: 2,
    testTimeout: 3_600_000,
    // The cache is keyed by the source file: it would mix instrumented modules with original ones.
    fsModuleCache: false,
  }
  return createVitest('test', options, { plugins: [plugin] })
}

/** The original must pass every test. For a mutant, the runner has noted whether a test failed. */
async function runTests(
  vitest: Vitest,
  folder: string,
  { mutant: onlyMutant = '', testFiles }: { mutant?: string; testFiles?: ReadonlySet<string> } = {},
): Promise<void> {
  vitest.provide('onlyMutant', onlyMutant)
  const found = await vitest.globTestSpecifications()
  const wanted = found.filter(({ moduleId }) => testFiles?.has(moduleId) ?? true)
  const { testModules } = await vitest.runTestSpecifications(wanted, true)
  const failures = testModules.filter((module) => !module.ok()).flatMap(failuresIn)
  // The runner catches failures of tests with a mutant. These files could not even be imported.
  if (onlyMutant !== '' && failures.length > 0) appendFileSync(join(folder, 'killed'), `${onlyMutant}\n`)
  if (onlyMutant === '' && failures.length > 0)
    throw new Error(
      `Tests fail without a mutant, or after mutants that changed the state of a module:\n${failures.join('\n')}`,
    )
}

function failuresIn(module: TestModule): string[] {
  const errors = [...module.children.allTests('failed')].flatMap((test) => test.result().errors ?? [])
  return [...module.errors(), ...errors].map(({ message }) => `${module.relativeModuleId}: ${message}`)
}

/** Living mutants that were executed during an import, with the test files that imported them. */
function staticMutants(folder: string): Map<string, ReadonlySet<string>> {
  const killed = new Set(linesIn(folder, 'killed'))
  const pairs = linesIn(folder, 'static').map((line) => ({ mutant: line.split(' ', 1)[0] ?? '', line }))
  const living = Map.groupBy(
    pairs.filter(({ mutant }) => !killed.has(mutant)),
    ({ mutant }) => mutant,
  )
  return new Map(
    [...living].map(([mutant, own]) => [mutant, new Set(own.map(({ line }) => line.slice(mutant.length + 1)))]),
  )
}

function linesIn(folder: string, name: string): string[] {
  const path = join(folder, name)
  return existsSync(path) ? readFileSync(path, 'utf8').trim().split('\n') : []
}

type Position = { line: number; column: number }

function textBetween(lines: readonly string[], start: Position, end: Position): string {
  const within = lines.slice(start.line, end.line + 1)
  const last = within.length - 1
  return within
    .map((line, index) => line.slice(index === 0 ? start.column : 0, index === last ? end.column : undefined))
    .join('\n')
}

const no = (): boolean => false
const nothing = (): void => {}
const SILENT = {
  isTraceEnabled: no,
  isDebugEnabled: no,
  isInfoEnabled: no,
  isWarnEnabled: no,
  isErrorEnabled: no,
  isFatalEnabled: no,
  trace: nothing,
  debug: nothing,
  info: nothing,
  warn: nothing,
  error: nothing,
  fatal: nothing,
}

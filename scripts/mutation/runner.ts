import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { inject, type RunnerTestCase, TestRunner } from 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    /** Folder in which results of mutants are collected. */
    mutationFolder: string
    /** A static mutant, which is active from the import of a file on. Empty to run all mutants that a test executes. */
    onlyMutant: string
  }
}

/** State that the instrumented code shares with its runner. The names are those of Stryker's instrumenter. */
type Instrumentation = {
  activeMutant?: string | undefined
  currentTestId?: string
  mutantCoverage?: { static: Record<string, number>; perTest: Record<string, Record<string, number>> }
  hitCount?: number
  hitLimit?: number
}

// A mutant that is executed more often than its limit is assumed to loop forever, and the instrumented code throws.
/** The limit is this many times the executions in the original program. */
const HIT_LIMIT_FACTOR = 5
const HIT_LIMIT_MIN = 10_000
/** The limit of static mutants, whose executions in the original program are not counted. */
const STATIC_HIT_LIMIT = 10_000_000

const state: Instrumentation = {}
Object.assign(globalThis, { __stryker__: state })
// Property tests use the same inputs for every mutant and do not search for a smaller counterexample.
fc.configureGlobal({ seed: 1, endOnFailure: true })

/** Runs every test without a mutant, and then once for each mutant that it executes. A test that fails kills the mutant. */
// biome-ignore lint/style/noDefaultExport: Vitest loads the default export of a runner.
export default class MutationRunner extends TestRunner {
  readonly #staticMutant = inject('onlyMutant')
  #hasWrittenStaticMutants = false

  override importFile(filepath: string, source: 'collect' | 'setup'): unknown {
    if (this.#staticMutant !== '')
      Object.assign(state, { activeMutant: this.#staticMutant, hitCount: 0, hitLimit: STATIC_HIT_LIMIT })
    return super.importFile(filepath, source)
  }

  async runTask(test: RunnerTestCase): Promise<void> {
    const run = TestRunner.getTestFn(test)
    if (this.#staticMutant !== '') return await this.#runWithStaticMutant(run)
    if (!this.#hasWrittenStaticMutants) this.#writeStaticMutants(test.file.filepath)
    state.currentTestId = test.id
    await run()
    const executedMutants = Object.entries(state.mutantCoverage?.perTest[test.id] ?? {})
    // Executions with a mutant must not be counted as executions of this test.
    state.currentTestId = 'mutants'
    for (const [mutant, hits] of executedMutants) if (!isKilled(mutant)) await runMutant(mutant, hits, run)
    // Fails if a mutant has changed the state of a module.
    await run()
  }

  /** Runs a test with the static mutant, which has been active since the file was imported. */
  async #runWithStaticMutant(run: () => unknown): Promise<void> {
    if (isKilled(this.#staticMutant)) return
    try {
      await run()
    } catch {
      appendLine('killed', this.#staticMutant)
    }
  }

  /** Writes down the mutants that were executed before the first test, while modules were imported. */
  #writeStaticMutants(filepath: string): void {
    this.#hasWrittenStaticMutants = true
    for (const mutant of Object.keys(state.mutantCoverage?.static ?? {})) appendLine('static', `${mutant} ${filepath}`)
  }
}

async function runMutant(mutant: string, hits: number, run: () => unknown): Promise<void> {
  Object.assign(state, {
    activeMutant: mutant,
    hitCount: 0,
    hitLimit: Math.max(HIT_LIMIT_MIN, hits * HIT_LIMIT_FACTOR),
  })
  try {
    await run()
  } catch {
    appendLine('killed', mutant)
  } finally {
    state.activeMutant = undefined
  }
}

const appendLine = (name: string, line: string): void =>
  appendFileSync(join(inject('mutationFolder'), name), `${line}\n`)

/** Returns true if this or another worker has killed the mutant. Reads the file each time. */
function isKilled(mutant: string): boolean {
  const path = join(inject('mutationFolder'), 'killed')
  return existsSync(path) && readFileSync(path, 'utf8').split('\n').includes(mutant)
}

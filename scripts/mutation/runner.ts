import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { inject, type RunnerTestCase, TestRunner } from 'vitest'

declare module 'vitest' {
  interface ProvidedContext {
    /** Folder in which results of mutants are collected. */
    mutationFolder: string
    /** The only mutant to run, active from the import of the file on. Empty: all mutants that a test executes. */
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

/** An endless loop ends after this many times as many executions of the mutant as the original has. */
const HITS_FACTOR = 5
const HITS_MIN = 10_000
/** Limit for code whose executions in the original were not counted. */
const HITS_MAX = 10_000_000

const state: Instrumentation = {}
Object.assign(globalThis, { __stryker__: state })
// Every mutant gets equal inputs, and no smaller counterexample is searched.
fc.configureGlobal({ seed: 1, endOnFailure: true })

/** Runs every test once as it is, and then once for each mutant that it executes. A test that fails kills the mutant. */
// biome-ignore lint/style/noDefaultExport: Vitest loads the default export of a runner.
export default class MutationRunner extends TestRunner {
  readonly #only = inject('onlyMutant')
  #areStaticWritten = false

  override importFile(filepath: string, source: 'collect' | 'setup'): unknown {
    if (this.#only !== '') Object.assign(state, { activeMutant: this.#only, hitCount: 0, hitLimit: HITS_MAX })
    return super.importFile(filepath, source)
  }

  async runTask(test: RunnerTestCase): Promise<void> {
    const run = TestRunner.getTestFn(test)
    if (this.#only !== '') return await this.#runOnly(run)
    if (!this.#areStaticWritten) this.#writeStatic(test.file.filepath)
    state.currentTestId = test.id
    await run()
    const covered = Object.entries(state.mutantCoverage?.perTest[test.id] ?? {})
    state.currentTestId = 'mutants'
    for (const [mutant, hits] of covered) if (!isKilled(mutant)) await runMutant(mutant, hits, run)
    await run()
  }

  /** The mutant is active while the file is imported, so that constants of a module are computed with it. */
  async #runOnly(run: () => unknown): Promise<void> {
    if (isKilled(this.#only)) return
    try {
      await run()
    } catch {
      write('killed', this.#only)
    }
  }

  /** Mutants that were executed before the first test, while modules were imported. */
  #writeStatic(filepath: string): void {
    this.#areStaticWritten = true
    for (const mutant of Object.keys(state.mutantCoverage?.static ?? {})) write('static', `${mutant} ${filepath}`)
  }
}

async function runMutant(mutant: string, hits: number, run: () => unknown): Promise<void> {
  Object.assign(state, { activeMutant: mutant, hitCount: 0, hitLimit: Math.max(HITS_MIN, hits * HITS_FACTOR) })
  try {
    await run()
  } catch {
    write('killed', mutant)
  } finally {
    state.activeMutant = undefined
  }
}

const write = (name: string, line: string): void => appendFileSync(join(inject('mutationFolder'), name), `${line}\n`)

/** Reads the file each time: another worker may have killed the mutant. */
function isKilled(mutant: string): boolean {
  const path = join(inject('mutationFolder'), 'killed')
  return existsSync(path) && readFileSync(path, 'utf8').split('\n').includes(mutant)
}

import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { listSuitesWithoutDatabase } from './test/support/database-suites.ts'
import { listUnsupportedSuites } from './test/support/parts.ts'

const SUITES = '{src,cli,web,test,scripts}/**/*.test.ts'

/**
 * Suites for which one kind of database is enough: they bring their own, need none, or state a guarantee that does not depend
 * on it, with queries that others run.
 */
const listOnAnyDatabase = (): string[] => [
  ...listSuitesWithoutDatabase(SUITES),
  'cli/**',
  'scripts/**',
  'src/{harbor,harnesses,sandboxes,trials}/**',
  'src/grading/**',
  'src/taskgen/{assembly,authoring,candidates,environment,execution,lint,review,validation}/**',
  'src/platform/{git,postgres,blobs,outbound}/**',
  'test/{app,batches,ci,demo,docs,harbor,package,provider,safety,sdk,serve,samples,site,support}/**',
  'web/**',
  'test/chaos/{batch-steps,handover,kills,kubernetes-kills,spend,steps}.test.ts',
  'test/gateway/canary.test.ts',
  'src/comparisons/docker-pauses.test.ts',
  'src/batches/validator.test.ts',
]

/** Suites that run for minutes. They start first, so that no worker ends long after the others. */
const SLOW =
  /\/(trials\/(attacks|agent-failures|default-limits)|batches\/(pipeline|services)|services\/services|sandboxes\/(docker|local)(-ordinary-user|-crash)?|validation\/validate-task|environment\/(build-environment|read-submodules)|samples\/samples|execution\/execute|docs\/commands|chaos\/[\w-]+)\.test\.ts$/

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => Number(SLOW.test(b.moduleId)) - Number(SLOW.test(a.moduleId)))
  }
}

const project = (name: string, groupOrder: number, include: string[], exclude: string[] = []) => ({
  extends: true as const,
  test: { name, include, exclude, sequence: { groupOrder } },
})

export default defineConfig({
  test: {
    globalSetup: 'test/support/global-setup.ts',
    maxWorkers: 3,
    sequence: { sequencer: SlowestFirst },
    // Half of the processor time was module loading. Suites share a process, so none may change its global state.
    isolate: false,
    // Saves garbage collections: a larger young generation, and a heap that may double between full collections.
    execArgv: ['--max-semi-space-size=64', '--heap-growing-percent=100', '--no-memory-reducer'],
    testTimeout: process.env.ASSAY_TEST_LONG ? 3_600_000 : 120_000,
    hookTimeout: 60_000,
    // The default of one second is too short beside other suites.
    expect: { poll: { timeout: 30_000 } },
    projects: [
      project(
        'all',
        1,
        [SUITES],
        [
          'test/last/**',
          ...listUnsupportedSuites(),
          ...(process.env.ASSAY_TEST_DATABASE_URL ? listOnAnyDatabase() : []),
        ],
      ),
      // Looks back at what the others have seen.
      project('last', 2, ['test/last/*.test.ts']),
    ],
  },
})

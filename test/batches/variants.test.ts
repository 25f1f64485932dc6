// Tries every variant of the fixes of good pull requests with the toolchains of this machine: the tests of a task that
// becomes ready must notice most of them. The pipeline does the same in containers.
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import {
  listVariants,
  type SolutionVariant,
  type SurvivingVariant,
} from '../../src/taskgen/execution/solution-variants.ts'
import { rejectWeakTests, summariseVariants } from '../../src/taskgen/execution/try-variants.ts'
import { hasProgram, isLongRun } from '../support/parts.ts'
import { repositories } from '../support/repositories/repositories.ts'
import { listCandidates, type SampleRepository, type SourceTree } from '../support/repositories/repository.ts'
import { afterHostileBuild } from '../support/repositories/tally/hostile.ts'
import { toolchains, writeTree } from '../support/repositories/toolchains.ts'
import { type KnownPull, type KnownRepository, openKnown } from './known-pull.ts'

vi.setConfig({ testTimeout: 1_800_000, hookTimeout: 60_000 })

const run = promisify(execFile)

/** Default runs try one pull request of the Python project, which is fast. */
const QUICK = { name: 'tally', number: 1 }
const chosen = repositories.filter(({ name }) => isLongRun() || name === QUICK.name)

/** The limits of the pipeline for fast tests. */
const LIMITS = { parts: 8, mutants: 8 }

describe.each(chosen)('$name, in $language', (repository) => {
  let known: KnownRepository
  let root: string
  beforeAll(async () => {
    known = await openKnown(repository)
    root = await mkdtemp(join(tmpdir(), 'assay-variants-'))
  })
  afterAll(async () => {
    await known?.[Symbol.asyncDispose]()
    await rm(root, { recursive: true, force: true })
  })

  const ready = listCandidates(repository)
    .filter(({ expected }) => expected === 'ready')
    .filter(({ number }) => isLongRun() || number === QUICK.number)
    // Its base contains a malicious build script, which must never run outside of a sandbox.
    .filter(({ number }) => !(repository.name === 'tally' && number === afterHostileBuild.number))
  const isRunnable = hasProgram(toolchains[repository.language].program)

  test.runIf(isRunnable).each(ready.map(({ number, title }) => [number, title] as const))(
    'tests of #%i notice most variants of its fix: %s',
    async (number) => {
      const pull = await known.pull(number)
      const list = async (patch: string) => listPassed(root, repository, { pull, patch })
      const required = await list(pull.split.source)
      expect(required.length).toBeGreaterThan(0)
      const variants = listTried(pull.split.source)
      const outcomes: { variant: SolutionVariant; isPassed: boolean }[] = []
      for (const variant of variants) {
        const passed = new Set(await list(variant.patch))
        outcomes.push({ variant, isPassed: required.every((id) => passed.has(id)) })
      }
      const results = { ...summariseVariants(outcomes), runs: variants.length, cpuSeconds: 0 }
      expect(rejectWeakTests(results), describeSurvivors(results.survivors)).toBeUndefined()
    },
  )
})

/** Lists variants. A fix of a single part is known to be needed. */
function listTried(source: string): SolutionVariant[] {
  const variants = listVariants(source, LIMITS)
  const mutants = variants.filter(({ kind }) => kind === 'mutant')
  return variants.length - mutants.length === 1 ? mutants : variants
}

type SolvedTree = { pull: KnownPull; patch: string }

/** Lists the tests that pass with a solution and the tests of the pull request. */
async function listPassed(root: string, { language }: SampleRepository, { pull, patch }: SolvedTree) {
  const folder = await writeTree(await mkdtemp(join(root, 'tree-')), withTests(pull))
  await writeFile(join(root, 'patch'), Buffer.from(patch, 'latin1'))
  await run('git', ['apply', '--unsafe-paths', '--whitespace=nowarn', '--directory', folder, join(root, 'patch')], {
    cwd: root,
  })
  const ended = await toolchains[language].run(folder)
  return [...ended].filter(([, end]) => end === 'passed').map(([id]) => id)
}

function withTests({ before, split: { hidden } }: KnownPull): SourceTree {
  const tree = new Map(before)
  for (const path of hidden.deleted) tree.delete(path)
  for (const { path, content } of hidden.files) tree.set(path, content)
  return tree
}

const describeSurvivors = (survivors: readonly SurvivingVariant[]): string =>
  survivors
    .map(({ kind, path, line, before, after }) => `${kind} ${path}:${line}\n${before}\n->\n${after}`)
    .join('\n\n')

import { readdirSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findRunner } from '../../src/grading/languages/languages.ts'
import { assembleTask } from '../../src/taskgen/assembly/assemble-task.ts'
import { DEFAULT_RESOURCES } from '../../src/taskgen/assembly/generated-task.ts'
import { execute } from '../../src/taskgen/execution/execute.ts'
import { planRuns } from '../../src/taskgen/execution/plan-runs.ts'
import { validateTask } from '../../src/taskgen/validation/validate-task.ts'
import { TESTS_IMAGE } from '../support/grading/suite-runner.ts'
import { type Harbor, startHarbor } from '../support/harbor-program.ts'
import { finishTask, SHOP } from '../support/taskgen/finished-task.ts'
import { BASE, type Builder, bareRootfs, openBuilder } from '../support/taskgen/image-builders.ts'
import { doneOf, preparePullRequest } from '../support/taskgen/prepared-pull-request.ts'
import { pythonRootfs } from '../support/taskgen/python-suite-runner.ts'

/** Long run only: installing Harbor takes minutes, and so does each of its builds. */
const isLong = process.env.ASSAY_TEST_LONG !== undefined
const AN_HOUR = 3_600_000

let harbor: Harbor
let builder: Builder
beforeAll(async () => {
  if (!isLong) return
  builder = await openBuilder('local')
  harbor = await startHarbor({ [BASE]: await bareRootfs(), [TESTS_IMAGE]: await pythonRootfs() })
}, AN_HOUR)
afterAll(async () => {
  await harbor?.[Symbol.asyncDispose]()
  await builder?.[Symbol.asyncDispose]()
}, AN_HOUR)

test.runIf(isLong)(
  'Harbor itself: the oracle scores 1 on a finished task, nop 0, and a solution that solves nothing 0',
  async () => {
    const { folder } = await finishTask(builder.folder, TESTS_IMAGE, SHOP)
    expect(await harbor.runHarbor(folder, 'nop')).toEqual({ reward: 0 })
    expect(await harbor.runHarbor(folder, 'oracle')).toEqual({ reward: 1 })
    await rm(join(folder, 'solution/fix.patch'))
    expect(await harbor.runHarbor(folder, 'oracle')).toEqual({ reward: 0 })
  },
  AN_HOUR,
)

const PROJECT = `[project]
name = "ranks"
version = "1"
[project.optional-dependencies]
test = ["pytest"]
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[tool.setuptools]
packages = ["ranks"]
`
const RANKS = 'def rank(values):\r\n    return sorted(values)\r\n\r\n\r\ndef low(values):\r\n    return min(values)\r\n'
const tests = (first: string) => `from ranks import low, rank


def test_low():
    assert low([1, 99]) == 1


def test_rank():
    assert rank([1, 2]) == ${first}
`

/** Includes line endings, attributes and ignored files, which are error-prone. */
const BEFORE = {
  'pyproject.toml': PROJECT,
  'ranks/__init__.py': RANKS,
  'tests/test_ranks.py': tests('[1, 2]'),
  '.gitattributes': '* text=auto eol=crlf\n',
  'notes/kept.log': 'kept although ignored\n',
  '.gitignore': '*.log\n',
}
const LANDED = {
  'ranks/__init__.py': RANKS.replace('sorted(values)', 'sorted(values, reverse=True)'),
  'tests/test_ranks.py': tests('[2, 1]'),
}

/** Creates a task with the functions of the stages. Only the model's text is hand-written. */
async function makeTask(): Promise<{ folder: string; order: Parameters<typeof validateTask>[1] }> {
  const { signal } = new AbortController()
  const made = await preparePullRequest(builder, BEFORE, LANDED)
  const { source, hidden } = made.split
  const runner = findRunner(made.recipe.runner)
  if (!runner) throw new Error(`Unknown runner ${made.recipe.runner}.`)
  const image = doneOf(made.image)
  const wanted = planRuns({ runner, hidden, suiteCpuSeconds: 1 })
  const execution = { image, source, hidden, plan: wanted, folder: builder.folder }
  const { plan, lists } = doneOf(await execute(builder.provider, execution, signal))
  const folder = join(builder.folder, 'm4x7t2')
  const told = {
    name: 'generated/m4x7t2',
    title: 'Ranks',
    markdown: '# Ranks\n\n`rank` must begin with the highest.\n',
  }
  const limits = {
    buildTimeoutSec: 1200,
    agentTimeoutSec: 600,
    resources: DEFAULT_RESOURCES,
    difficulty: 'easy' as const,
  }
  doneOf(
    await assembleTask(folder, { ...told, ...limits, environmentFolder: made.folder, plan, lists, hidden, source }),
  )
  return { folder, order: { folder, lists, source, exposed: [], outputFolder: join(builder.folder, 'output') } }
}

test.runIf(isLong)(
  'Harbor itself: a task that all stages created from a pull request is valid here, and scores 1 and 0 there',
  async () => {
    const { folder, order } = await makeTask()
    const counts = { nop: 1, oracle: 2, oracleAll: 2 }
    const proof = doneOf(await validateTask(builder.provider, { ...order, counts }, new AbortController().signal))
    expect(proof).toMatchObject({ oracle: [{ reward: 1 }, { reward: 1 }], nop: [{ reward: 0, notPassed: 1 }] })
    expect(await harbor.runHarbor(folder, 'nop')).toEqual({ reward: 0 })
    expect(await harbor.runHarbor(folder, 'oracle')).toEqual({ reward: 1 })
  },
  AN_HOUR,
)

/** Tasks that `test/batches/pipeline.test.ts` wrote. */
const readyFolder = process.env.ASSAY_TEST_READY_TASKS
const ready = isLong && readyFolder ? readdirSync(readyFolder) : []

test.for(ready)(
  'Harbor itself: the oracle scores 1 and nop 0 on the ready task %s',
  { timeout: AN_HOUR },
  async (name) => {
    const folder = join(readyFolder ?? '', name)
    expect(await harbor.runHarbor(folder, 'nop')).toEqual({ reward: 0 })
    expect(await harbor.runHarbor(folder, 'oracle')).toEqual({ reward: 1 })
  },
)

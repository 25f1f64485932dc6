import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Builder, openBuilder } from '../../../test/support/taskgen/image-builders.ts'
import {
  doneOf,
  type PreparedPullRequest,
  preparePullRequest,
  scan,
} from '../../../test/support/taskgen/prepared-pull-request.ts'
import { findRunner } from '../../grading/languages/languages.ts'
import { checkHealth } from '../environment/check-health.ts'
import { execute } from './execute.ts'
import { planRuns } from './plan-runs.ts'

vi.setConfig({ testTimeout: 900_000, hookTimeout: 1_800_000 })

const PROJECT = `[project]
name = "ranks"
version = "1"
dependencies = ["attrs"]
[project.optional-dependencies]
test = ["pytest"]
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[tool.setuptools]
packages = ["ranks"]
`
const OLD =
  'import attr\n\n\ndef rank(values):\n    return sorted(values)\n\n\ndef low(values):\n    return min(values)\n'
const NEW = OLD.replace('sorted(values)', 'sorted(values, reverse=True)')
const tests = (first: number[]) =>
  `from ranks import low, rank\nimport pytest\n\n\n@pytest.mark.parametrize('n', range(12))\ndef test_low(n):\n    assert low([n, 99]) == n\n\n\ndef test_rank():\n    assert rank([1, 2]) == [${first}]\n`

/** A later pytest breaks this suite, although the project does not exclude it. */
const CONFTEST = 'import pytest\n\nassert pytest.version_tuple < (9,)\n'

const BASE = {
  'conftest.py': CONFTEST,
  'pyproject.toml': PROJECT,
  'ranks/__init__.py': OLD,
  'tests/test_ranks.py': tests([1, 2]),
  '.gitattributes': '* text=auto eol=crlf\ntests export-ignore\n',
  'notes/windows.txt': 'a\r\nb\r\n',
  'notes/ignored.log': 'kept although ignored',
  '.gitignore': '*.log\n',
}
const LANDED = { 'ranks/__init__.py': NEW, 'tests/test_ranks.py': tests([2, 1]), 'CHANGES.md': '- ranks\n' }

let builder: Builder
let made: PreparedPullRequest
beforeAll(async () => {
  builder = await openBuilder('local')
  made = await preparePullRequest(builder, BASE, LANDED)
})
afterAll(() => builder?.[Symbol.asyncDispose]())

const signal = new AbortController().signal

async function executed(from: PreparedPullRequest) {
  const { image, split, recipe } = from
  const runner = findRunner(recipe.runner)
  if (!runner) throw new Error(`Unknown runner ${recipe.runner}`)
  const plan = planRuns({ runner, hidden: split.hidden, suiteCpuSeconds: 1 })
  return execute(builder.provider, { ...split, image: doneOf(image), plan, folder: builder.folder }, signal)
}

/** Another pull request on the same base, whose image is there. */
async function variant(landed: Record<string, string>) {
  return executed(await preparePullRequest(builder, BASE, landed))
}

test('the image contains the base tree as its only commit and nothing of the answer', async () => {
  expect(await scan(builder, made)).toEqual({ kind: 'done', value: null })
})

test('the suite is healthy with the packages of the time of its commit', async () => {
  const order = { image: doneOf(made.image), runner: 'pytest', prepare: [], folder: builder.folder }
  expect(await checkHealth(builder.provider, order, signal)).toMatchObject({
    kind: 'done',
    value: { tests: 13, passed: 13 },
  })
})

test('computes fail-to-pass and pass-to-pass tests from nine runs', async () => {
  const execution = doneOf(await executed(made))
  expect(execution.lists.failToPass).toEqual([expect.stringContaining('test_rank')])
  expect(execution.lists.passToPass).toHaveLength(12)
  expect(execution).toMatchObject({
    unstable: [],
    failsByAssertion: true,
    ablation: { groups: 1, necessary: 1, mutants: 1, noticed: 1, survivors: [] },
  })
  expect(execution.plan.timeoutSec).toBe(120)
  const kinds = execution.runs.map(({ variant: of, isShuffled, cpus, daysAhead }) => [of, isShuffled, cpus, daysAhead])
  expect(kinds).toEqual([
    ['base', false, 2, null],
    ['tests', false, 2, null],
    ['fixed', false, 2, null],
    ['alone', false, 2, null],
    ['tests', false, 2, null],
    ['tests', false, 2, null],
    ['fixed', true, 2, null],
    ['fixed', false, 1, null],
    ['fixed', false, 2, 1111],
  ])
})

/** It passes where all others have run before it, one after the other. */
const ORDERED = `${tests([2, 1]).replace('    assert low', '    SEEN.append(n)\n    assert low')}

SEEN = []


def test_in_order():
    assert rank([1, 2]) == [2, 1] and SEEN == list(range(12))
`

/** True today, and until the end of next year. */
const UNTIL = `${tests([2, 1])}

def test_not_yet():
    import datetime
    assert rank([1, 2]) == [2, 1] and datetime.date.today().year <= ${new Date().getUTCFullYear() + 1}
`

test.each<[string, string, Record<string, string>]>([
  [
    'a fix that breaks what was right',
    'p2f',
    {
      'ranks/__init__.py': NEW,
      'tests/test_ranks.py': tests([1, 2]).replace('[1, 2]) ==', '[2, 1]) ==').replace('low([n, 99])', 'low([99, n])'),
    },
  ],
  [
    'tests that pass before the fix',
    'no_f2p',
    {
      'ranks/__init__.py': OLD.replace('min(values)', 'sorted(values)[0]'),
      'tests/test_ranks.py': tests([1, 2]).replace('99', '98'),
    },
  ],
  [
    'a fix whose parts are mostly untested',
    'weak_tests',
    {
      'ranks/__init__.py': NEW,
      'ranks/more.py': 'def more():\n    return 1\n',
      'ranks/others.py': 'def others():\n    return 2\n',
      'tests/test_ranks.py': tests([2, 1]),
    },
  ],
  ['a test that fails on a later day', 'clock_bomb', { ...LANDED, 'tests/test_ranks.py': UNTIL }],
  ['a test that passes in one order alone', 'flaky_f2p', { ...LANDED, 'tests/test_ranks.py': ORDERED }],
])('%s: %s', async (_, reason, landed) => {
  const base = { variant: 'base', cpus: 2, passed: 13, failed: 0 }
  expect(await variant(landed)).toMatchObject({
    kind: 'rejected',
    reason,
    evidence: { runs: expect.arrayContaining([expect.objectContaining(base)]) },
  })
})

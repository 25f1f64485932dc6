import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pythonRootfs } from '../../test/support/grading/images.ts'
import {
  HIDDEN,
  HIDDEN_TEST,
  hiddenTests,
  LISTS,
  RIGHT,
  SHAPES,
  SOLVED,
  THREE,
  TWO,
  UNSOLVED,
} from '../../test/support/grading/shapes-project.ts'
import {
  openSuiteRunner,
  type SuiteRepository,
  type SuiteRunner,
  statusesOf,
} from '../../test/support/grading/suite-runner.ts'

let fixture: SuiteRunner
let repository: SuiteRepository
beforeAll(async () => {
  fixture = await openSuiteRunner('bwrap', await pythonRootfs())
  repository = await fixture.repository(SHAPES, { runner: 'pytest' })
}, 1_800_000)
afterAll(async () => fixture?.[Symbol.asyncDispose](), 300_000)

const judge = (files: Record<string, string | null>, tests = HIDDEN) =>
  repository.judge(LISTS, { submission: repository.patch(files), hidden: tests })

describe('grading in a sandbox', () => {
  test('an empty submission gets 0 for the right reason', async () => {
    const { reward, outcome } = await repository.judge(LISTS, { hidden: HIDDEN })
    expect(reward).toBe('0\n')
    expect(statusesOf(outcome)).toEqual(UNSOLVED)
  })

  test('a correct submission gets 1, even with its own tests', async () => {
    const { reward, outcome } = await judge({
      'shapes.py': RIGHT,
      'tests/test_shapes.py': 'def test_mine():\n    pass\n',
    })
    expect(statusesOf(outcome)).toEqual(SOLVED)
    expect(reward).toBe('1\n')
  })

  test('deletes removed tests and creates new folders', async () => {
    const tests = hiddenTests({ 'tests/deep/er/test_new.py': 'def test_new():\n    pass\n' }, ['tests/test_shapes.py'])
    expect(statusesOf(await repository.run({ hidden: tests }))).toEqual({
      'tests.deep.er.test_new::test_new': 'passed',
    })
  })

  test('does not count a skipped test as passed', async () => {
    const skipping = HIDDEN_TEST.replace('def test_three', 'import pytest\n@pytest.mark.skip\ndef test_three')
    const { reward, outcome } = await judge({ 'shapes.py': RIGHT }, hiddenTests({ 'tests/test_shapes.py': skipping }))
    expect(statusesOf(outcome)).toEqual({ [TWO]: 'passed', [THREE]: 'skipped' })
    expect(reward).toBe('0\n')
  })

  test('stops tests that run too long', async () => {
    const endless = 'import time\n\ndef test_two():\n    time.sleep(600)\n'
    const tests = hiddenTests({ 'tests/test_shapes.py': endless })
    const { reward, outcome } = await repository.judge(LISTS, { hidden: tests, timeoutSec: 3 })
    expect(outcome).toMatchObject({ kind: 'broken', reason: 'timeout' })
    expect(reward).toBe('0\n')
  })

  test('does not run tests that cannot be prepared', async () => {
    const { reward, outcome } = await repository.judge(LISTS, { prepare: ['echo no compiler; exit 3'] })
    expect(outcome).toMatchObject({
      kind: 'broken',
      reason: 'prepare_failed',
      detail: expect.stringContaining('no compiler'),
    })
    expect(reward).toBe('0\n')
  })
})

const PASS_ALL = `import pytest

@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome = 'passed'
    report.longrepr = None
`

/** None of these changes what the tests come to: it is left out, and the rest of the submission is judged. */
const LEFT_OUT: Record<string, Record<string, string | null>> = {
  'a conftest.py': { 'conftest.py': PASS_ALL },
  'a conftest.py beside the tests': { 'tests/conftest.py': PASS_ALL },
  'a pytest.ini': { 'pytest.ini': '[pytest]\npython_functions = test_two\n' },
  'a pyproject.toml': { 'pyproject.toml': '[tool.pytest.ini_options]\npython_functions = "test_two"\n' },
  'a setup.cfg': { 'setup.cfg': '[tool:pytest]\npython_functions = test_two\n' },
  'a sitecustomize.py': { 'sitecustomize.py': 'import os\nos._exit(0)\n' },
  'a .pth file': { 'evil.pth': 'import os; os._exit(0)\n' },
  'a module in the place of pytest': { 'pytest.py': 'import os\nos._exit(0)\n' },
  "a module in the place of one of Python's": { 'xml/__init__.py': 'import os\nos._exit(0)\n' },
  'a change of helpers of the tests': { 'tests/helpers.py': 'def same(a, b):\n    pass\n' },
  'a change of the hidden tests': {
    'tests/test_shapes.py': 'def test_two():\n    pass\n\ndef test_three():\n    pass\n',
  },
  'a folder of tests that is gone': { tests: null },
  'a Makefile and a package.json': { Makefile: 'test:\n\ttrue\n', 'package.json': '{"scripts":{"test":"true"}}\n' },
  'a file that git ignores': { 'build/shapes.py': RIGHT },
}

describe('a submission cannot influence the grader by', () => {
  for (const [what, files] of Object.entries(LEFT_OUT)) {
    test(what, async () => {
      const { reward, outcome } = await judge(files)
      expect(statusesOf(outcome)).toEqual(UNSOLVED)
      expect(reward).toBe('0\n')
    })
  }

  test('all of them at once, and a correct submission with them still gets 1', async () => {
    const all = Object.assign({}, ...Object.values(LEFT_OUT), { tests: null, 'shapes.py': RIGHT })
    const { reward, outcome } = await judge(
      Object.fromEntries(Object.entries(all).filter(([path]) => !path.startsWith('tests/'))) as Record<
        string,
        string | null
      >,
    )
    expect(statusesOf(outcome)).toEqual(SOLVED)
    expect(reward).toBe('1\n')
  })
})

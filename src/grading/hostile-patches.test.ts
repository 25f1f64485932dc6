import { chmodSync, mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pythonRootfs } from '../../test/support/grading/images.ts'
import { HIDDEN, LISTS, SHAPES, SOLVED, UNSOLVED } from '../../test/support/grading/shapes-project.ts'
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

const judge = (submission: string) => repository.judge(LISTS, { submission, hidden: HIDDEN })

const newFile = (path: string, content = 'x', mode = '100644'): string =>
  `diff --git a/${path} b/${path}\nnew file mode ${mode}\n--- /dev/null\n+++ b/${path}\n@@ -0,0 +1 @@\n+${content}\n\\ No newline at end of file\n`

/** Refused as a whole: nobody who works on the task comes to any of these. */
const REFUSED: Record<string, () => string> = {
  'a path that leads out': () => newFile('../outside.py'),
  'an absolute path': () => newFile('/etc/profile.d/x.sh'),
  "a path into git's own folder": () => newFile('.git/hooks/pre-commit'),
  'a link that leads out': () => newFile('link', '../../../etc/passwd', '120000'),
  'a link to an absolute path': () => newFile('tests2', '/tests', '120000'),
  'a link to what must pass': () => newFile('shapes_data', '/logs/verifier', '120000'),
  'a file behind a link': () => `${newFile('d', 'lib', '120000')}${newFile('d/x.py')}`,
  'a submodule': () =>
    `diff --git a/sub b/sub\nnew file mode 160000\nindex 0000000..1111111\n--- /dev/null\n+++ b/sub\n@@ -0,0 +1 @@\n+Subproject commit ${'1'.repeat(40)}\n`,
  'a change of lines that are not there': () =>
    'diff --git a/shapes.py b/shapes.py\n--- a/shapes.py\n+++ b/shapes.py\n@@ -1,1 +1,1 @@\n-nothing like it\n+x\n',
  'no patch at all': () => 'This is not a patch.\n',
  'zero bytes': () => '\0'.repeat(1000),
  'half a binary patch': () =>
    'diff --git a/x b/x\nnew file mode 100644\nindex 0000000..1111111\nGIT binary patch\nliteral 999999999\nzcmb\n',
}

describe('refuses a patch because of', () => {
  for (const [what, patch] of Object.entries(REFUSED)) {
    test(what, { timeout: 60_000 }, async () => {
      const { reward, outcome } = await judge(patch())
      expect(outcome).toMatchObject({ kind: 'broken', reason: 'patch_does_not_apply' })
      expect(reward).toBe('0\n')
    })
  }

  test('its size', { timeout: 120_000 }, async () => {
    const { reward, outcome } = await judge(newFile('large.txt', 'x'.repeat(65 * 1024 * 1024)))
    expect(outcome).toMatchObject({ kind: 'broken', reason: 'patch_does_not_apply' })
    expect(reward).toBe('0\n')
  })
})

/** Done to the folder of an agent, and taken from there as git sees it. */
const DONE: Record<string, (folder: string) => void> = {
  'a folder of tests that is a link': (folder) => {
    renameSync(join(folder, 'tests'), join(folder, 'mine'))
    symlinkSync('mine', join(folder, 'tests'))
  },
  'a file in the place of the folder of tests': (folder) => {
    rmSync(join(folder, 'tests'), { recursive: true })
    symlinkSync('shapes.py', join(folder, 'tests'))
  },
  'another file renamed over hidden tests': (folder) =>
    renameSync(join(folder, 'tests/helpers.py'), join(folder, 'tests/test_shapes.py')),
  'a folder in the place of a hidden test': (folder) => {
    rmSync(join(folder, 'tests/test_shapes.py'))
    mkdirSync(join(folder, 'tests/test_shapes.py'))
    renameSync(join(folder, 'Makefile'), join(folder, 'tests/test_shapes.py/x'))
  },
  'a program that can be run': (folder) => chmodSync(join(folder, 'shapes.py'), 0o755),
}

describe('grader files are intact after', () => {
  for (const [what, change] of Object.entries(DONE)) {
    test(what, { timeout: 60_000 }, async () => {
      const wrong = await judge(repository.patchAfter(change))
      expect(wrong.outcome.kind === 'ran' ? statusesOf(wrong.outcome) : wrong.outcome.reason).toEqual(
        wrong.outcome.kind === 'ran' ? UNSOLVED : 'patch_does_not_apply',
      )
      expect(wrong.reward).toBe('0\n')
    })
  }

  test('a correct submission with non-ASCII names, binary content and an internal link', {
    timeout: 60_000,
  }, async () => {
    const patch = repository.patchAfter((folder) => symlinkSync('shapes.py', join(folder, 'größe 面積.py')))
    const both = repository.patch({
      'shapes.py': 'def area(side):\n    return side * side\n',
      'data.bin': '\0\x01\xff\xfe',
    })
    const { reward, outcome } = await judge(patch + both)
    expect(statusesOf(outcome)).toEqual(SOLVED)
    expect(reward).toBe('1\n')
  })
})

/** Loaded by the runner because it is there: whoever is tested need not be loaded for it. */
const PLUGIN = `import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.outcome, report.longrepr = 'passed', None
`
const ABOUT = 'Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n'
const NAMED = '[pytest11]\nplanted = planted_plugin\n'

describe('the runner loads nothing from', () => {
  test.each<[string, Record<string, string>]>([
    [
      'a package that looks installed',
      { 'planted-1.0.dist-info/METADATA': ABOUT, 'planted-1.0.dist-info/entry_points.txt': NAMED },
    ],
    [
      'a package that looks as if it were being worked on',
      { 'planted.egg-info/PKG-INFO': ABOUT, 'planted.egg-info/entry_points.txt': NAMED },
    ],
    [
      'a module that is said to be part of Python',
      { 'sitecustomize/__init__.py': PLUGIN, 'pygments/__init__.py': PLUGIN },
    ],
  ])('%s', { timeout: 60_000 }, async (_, files) => {
    const { outcome, reward } = await judge(repository.patch({ 'planted_plugin.py': PLUGIN, ...files }))
    expect(statusesOf(outcome)).toEqual(UNSOLVED)
    expect(reward).toBe('0\n')
  })
})

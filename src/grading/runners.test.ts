import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { longRootfs, shortRootfs } from '../../test/support/grading/images.ts'
import { cargoSample } from '../../test/support/grading/projects/cargo.ts'
import { ctestSample } from '../../test/support/grading/projects/ctest.ts'
import { goSample } from '../../test/support/grading/projects/go.ts'
import { gradleSample } from '../../test/support/grading/projects/gradle.ts'
import { jestSample, vitestSample } from '../../test/support/grading/projects/jest.ts'
import { mavenSample } from '../../test/support/grading/projects/maven.ts'
import { mochaSample } from '../../test/support/grading/projects/mocha.ts'
import { nodeTestSample } from '../../test/support/grading/projects/node-test.ts'
import { phpunitSample } from '../../test/support/grading/projects/phpunit.ts'
import { pytestSample } from '../../test/support/grading/projects/pytest.ts'
import { rspecSample } from '../../test/support/grading/projects/rspec.ts'
import { unittestSample } from '../../test/support/grading/projects/unittest.ts'
import type { SampleProject } from '../../test/support/grading/sample-project.ts'
import {
  openSuiteRunner,
  type SuiteRepository,
  type SuiteRunner,
  type SuiteSandbox,
  statusesOf,
} from '../../test/support/grading/suite-runner.ts'
import { hasPart, isLongRun } from '../../test/support/parts.ts'
import { findRunner, runners } from './languages/languages.ts'

const SHORT: SampleProject[] = [pytestSample, unittestSample, nodeTestSample, goSample]
const LONG: SampleProject[] = [
  jestSample,
  vitestSample,
  mochaSample,
  cargoSample,
  mavenSample,
  gradleSample,
  ctestSample,
  rspecSample,
  phpunitSample,
]
const MINUTES = 60_000

test('every runner has a sample repository', () => {
  expect([...SHORT, ...LONG].map(({ runner }) => runner).sort()).toEqual(runners.map(({ id }) => id).sort())
})

test('every runner writes a report format that the grader can read', () => {
  const program = 'import json, reports; print(json.dumps(list(reports.READERS)))'
  const cwd = join(import.meta.dirname, 'files')
  const formats = JSON.parse(execFileSync('python3', ['-B', '-c', program], { cwd, encoding: 'utf8' }))
  for (const { report } of runners) expect(formats).toContain(report)
})

test.each([...SHORT, ...LONG])('$runner is detected first in its sample repository', ({ runner, tree, target }) => {
  const facts = { paths: new Set(Object.keys(tree)), texts: new Map(Object.entries(tree)) }
  expect(runners.find(({ detect }) => detect(facts))?.id).toBe(runner)
  if (target !== null) expect(findRunner(runner)?.isTarget(target)).toBe(true)
})

test.each([
  ['pytest', 'def test_area():\n    assert True\n'],
  ['pytest', 'import pytest\n\n\nclass TestArea:\n    def test_area(self):\n        assert True\n'],
  ['unittest', 'import unittest\n\n\nclass Area(unittest.TestCase):\n    def test_area(self):\n        pass\n'],
])('detects %s by a test alone', (runner, text) => {
  const facts = { paths: new Set(['tests/test_area.py']), texts: new Map([['tests/test_area.py', text]]) }
  expect(runners.find(({ detect }) => detect(facts))?.id).toBe(runner)
})

inSandbox('bwrap', shortRootfs, SHORT)
if (isLongRun()) {
  inSandbox('bwrap', longRootfs, LONG)
  inSandbox('runc', shortRootfs, SHORT)
  inSandbox('docker', shortRootfs, SHORT)
}

function inSandbox(name: SuiteSandbox, rootfs: () => Promise<string>, samples: SampleProject[]): void {
  describe.skipIf(!hasPart(name))(`in ${name}`, () => {
    let fixture: SuiteRunner
    beforeAll(async () => {
      fixture = await openSuiteRunner(name, await rootfs())
    }, 30 * MINUTES)
    afterAll(async () => fixture?.[Symbol.asyncDispose](), 5 * MINUTES)
    for (const sample of samples) describe(sample.runner, () => contract(sample, () => fixture))
  })
}

function contract(sample: SampleProject, fixture: () => SuiteRunner): void {
  let repository: SuiteRepository
  beforeAll(async () => {
    repository = await fixture().repository(sample.tree, { runner: sample.runner, prepare: sample.prepare ?? [] })
  }, 5 * MINUTES)

  test('reports every test with its id and outcome', { timeout: 5 * MINUTES }, async () => {
    const outcome = await repository.run()
    expect(statusesOf(outcome)).toEqual(sample.statuses)
    const [id, part] = sample.failureMessage
    expect(outcome).toMatchObject({ run: { messages: { [id]: expect.stringContaining(part) } } })
  })

  test('reports the same in another order', { timeout: 5 * MINUTES }, async () => {
    expect(statusesOf(await repository.run({ seed: 7 }))).toEqual(sample.statuses)
  })

  test.skipIf(!findRunner(sample.runner)?.selects)('runs selected tests alone', { timeout: 5 * MINUTES }, async () => {
    const [id] = sample.failureMessage
    const statuses = statusesOf(await repository.run({ only: [id] }))
    expect(statuses[id]).toBe(sample.statuses[id])
    expect(Object.values(statuses)).not.toContain('passed')
  })

  const { broken } = sample
  if (broken)
    test('a file that does not compile does not stop the others', { timeout: 5 * MINUTES }, async () => {
      const hidden = { files: [{ ...broken, executable: false }], deleted: [] }
      expect(statusesOf(await repository.run({ hidden }))).toEqual({ ...sample.statuses, [broken.id]: 'errored' })
    })

  test.skipIf(sample.target === null)('runs a single file', { timeout: 5 * MINUTES }, async () => {
    expect(statusesOf(await repository.run({ targets: [sample.target ?? ''] }))).toEqual(sample.targetStatuses)
  })
}

import { expect, test } from 'vitest'
import type { SuiteOutcome, TestStatus } from '../../grading/suite.ts'
import { judgeHealth } from './check-health.ts'

/** So many of each, with one message for all that fail. */
function ran(passed: number, failed = 0, message = 'AssertionError', skipped = 0): SuiteOutcome {
  const statuses: Record<string, TestStatus> = {}
  const messages: Record<string, string> = {}
  for (let n = 0; n < passed; n += 1) statuses[`p${n}`] = 'passed'
  for (let n = 0; n < skipped; n += 1) statuses[`s${n}`] = 'skipped'
  for (let n = 0; n < failed; n += 1) {
    statuses[`f${n}`] = 'failed'
    messages[`f${n}`] = message
  }
  return { kind: 'ran', run: { statuses, messages, exitCode: failed > 0 ? 1 : 0, seconds: 3 } }
}

const broken = (reason: 'no_report' | 'timeout' | 'prepare_failed', detail = ''): SuiteOutcome => ({
  kind: 'broken',
  reason,
  detail,
})

test('accepts ten tests with 85 % passing and identical reruns', () => {
  expect(judgeHealth(ran(10), ran(10))).toEqual({ tests: 10, passed: 10, seconds: 3, cpuSeconds: 3 })
  expect(judgeHealth(ran(17, 3), ran(17, 3))).toEqual({ tests: 20, passed: 17, seconds: 3, cpuSeconds: 3 })
  expect(judgeHealth(ran(10, 0, '', 50), ran(10, 0, '', 50))).toMatchObject({ tests: 10 })
})

test('a broken suite is described by the distinct messages of its tests', () => {
  const message = `ImportError while loading conftest\n${'  at some line\n'.repeat(100)}pytest has no attribute 'x'`
  const { detail } = { detail: '', ...judgeHealth(ran(1, 432, message), ran(1, 432, message)) }
  expect(detail).toMatch(/^1 of 433 tests pass\. f0, f1, f2, f3, f4\n432 tests: ImportError while loading conftest/)
  expect(detail).toMatch(/pytest has no attribute 'x'$/)
  expect(detail.length).toBeLessThan(1000)
})

test.each<[string, SuiteOutcome, SuiteOutcome, string]>([
  ['nine tests', ran(9, 0, '', 10), ran(9, 0, '', 10), 'suite_unhealthy'],
  ['too few that pass', ran(16, 4), ran(16, 4), 'suite_unhealthy'],
  [
    'too few because there is no network',
    ran(10, 10, 'socket.gaierror: Temporary failure in name resolution'),
    ran(10, 10),
    'needs_network',
  ],
  ['two runs that differ', ran(20), ran(19, 1), 'suite_unhealthy'],
  ['no report', ran(20), broken('no_report', 'Segmentation fault'), 'suite_unhealthy'],
  [
    'no report for want of a network',
    broken('no_report', 'dial tcp: lookup proxy: no such host'),
    ran(20),
    'needs_network',
  ],
  ['no end', broken('timeout'), ran(20), 'suite_too_slow'],
])('refuses %s', (_, first, second, reason) => {
  expect(judgeHealth(first, second)).toMatchObject({ kind: 'rejected', reason })
})

import { expect, test } from 'vitest'
import type { Comparison, ComparisonTrial } from '../src/comparisons/shapes/schema.ts'
import { formatJunit, formatMarkdown } from './comparison-reports.ts'

const SETTING = 'custom/qwen3|mini|none'
const comparison = {
  id: '0198c0de-0000-7000-8000-000000000000',
  state: 'completed',
  costUsd: 0.25,
  trials: { total: 3 },
  frontier: [SETTING],
  answer: { text: 'Use qwen3 <b>now</b>.' },
  settings: [
    {
      id: SETTING,
      passed: 1,
      tasks: 2,
      accuracy: 50,
      costPerTaskUsd: 0.125,
      stats: { ci95: { low: 6.2, high: 93.8 } },
      trials: { errored: 1 },
    },
  ],
} as unknown as Comparison

const trial = (name: string, over: Partial<ComparisonTrial>) =>
  ({
    id: '00000000-002a-8000-8000-000000000000',
    task: { name, digest: '' },
    settingId: SETTING,
    attempt: 1,
    class: 'verified',
    timings: { total: 1.5 },
    ...over,
  }) as ComparisonTrial

test('Markdown escapes cells and markup', () => {
  expect(formatMarkdown(comparison)).toEqual([
    'Use qwen3 \\<b\\>now\\</b\\>.',
    '',
    '| setting | passed | accuracy | 95 % | per task | errored | frontier |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    '| `custom/qwen3\\|mini\\|none` | 1/2 | 50.0 % | 6–94 % | $0.1250 | 1 | yes |',
    '',
    'Comparison `0198c0de-0000-7000-8000-000000000000` is completed: 3 trials, $0.2500.',
  ])
})

test('Markdown mentions no people, issues or pull requests that a label names', () => {
  const text = 'Use @octocat/all with acme/widgets#1 and e@example.org.'
  const [line] = formatMarkdown({ ...comparison, answer: { ...comparison.answer, text } } as Comparison)
  expect(line).toBe('Use @\u200boctocat/all with acme/widgets#\u200b1 and e@\u200bexample.org.')
})

test('JUnit XML has one suite per setting and escapes untrusted text', () => {
  const trials = [
    trial('lab/a', { state: 'passed' }),
    trial('lab/b', { state: 'failed', attempt: 2, explanation: '1 test failed: a < "b" & \u001b[2Jc.' }),
    trial('lab/c', { state: 'errored', class: 'provider_error', error: 'The provider failed.' }),
    trial('lab/d', { state: 'queued', class: null }),
  ]
  expect(formatJunit(comparison, trials)).toEqual([
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<testsuites name="assay">',
    `  <testsuite name="${SETTING}" tests="4" failures="1" errors="1" skipped="1" time="6.000">`,
    `    <testcase classname="${SETTING}" name="lab/a" time="1.500"/>`,
    `    <testcase classname="${SETTING}" name="lab/b (attempt 2)" time="1.500">`,
    `      <failure type="verified" message="1 test failed: a &lt; &quot;b&quot; &amp; \ufffd[2Jc.">assay trials show 00000000-002a-8000-8000-000000000000</failure>`,
    '    </testcase>',
    `    <testcase classname="${SETTING}" name="lab/c" time="1.500">`,
    '      <error type="provider_error" message="The provider failed.">assay trials show 00000000-002a-8000-8000-000000000000</error>',
    '    </testcase>',
    `    <testcase classname="${SETTING}" name="lab/d" time="1.500">`,
    '      <skipped message="queued"/>',
    '    </testcase>',
    '  </testsuite>',
    '</testsuites>',
  ])
})

import { expect, test } from 'vitest'
import { parseMetrics, sumMetric } from './metrics-text.ts'

const TEXT = `# HELP assay_jobs_running Jobs running in this process
# TYPE assay_jobs_running gauge
assay_jobs_running 3

assay_calls_total{outcome="succeeded",protocol="openai-chat"} 4
assay_calls_total{outcome="failed",protocol="a \\"quoted\\" one"} 1.5
no sample at all
`

test('samples are read with their labels, and other lines are skipped', () => {
  const samples = parseMetrics(TEXT)
  expect(samples).toHaveLength(3)
  expect(samples[1]).toEqual({
    name: 'assay_calls_total',
    labels: { outcome: 'succeeded', protocol: 'openai-chat' },
    value: 4,
  })
})

test('a metric is summed over all labels or over some, and a missing one is not zero', () => {
  const samples = parseMetrics(TEXT)
  expect(sumMetric(samples, 'assay_calls_total')).toBe(5.5)
  expect(sumMetric(samples, 'assay_calls_total', { outcome: 'failed' })).toBe(1.5)
  expect(sumMetric(samples, 'assay_calls_total', { outcome: 'open' })).toBeUndefined()
})

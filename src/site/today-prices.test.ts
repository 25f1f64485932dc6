import { expect, test } from 'vitest'
import type { Release, ReleaseSetting } from '../releases/shapes/schema.ts'
import { reprice } from './documents.ts'

const usagePerTask = { input: 1000, cacheRead: 0, cacheWrite: 0, output: 1000, reasoning: 0 }

const settingOf = (
  id: string,
  over: { passed: number; cost: number; usage?: null; custom?: boolean },
): ReleaseSetting => ({
  id,
  model: { catalogId: id.split('|')[0] ?? '', name: id, label: id },
  harness: 'mini',
  reasoningLevel: 'low',
  provider: 'lab',
  custom: over.custom ?? false,
  tasks: 10,
  passed: over.passed,
  accuracy: 10 * over.passed,
  costPerTaskUsd: over.cost,
  totalCostUsd: 10 * over.cost,
  onFrontier: true,
  isolation: null,
  stats: {
    passAt1: 50,
    ci95: null,
    rank: { best: 1, worst: 2 },
    frontierProbability: 0.9,
    usagePerTask: over.usage === null ? null : usagePerTask,
    cacheHitRate: null,
    reliability: null,
    coverage: 100,
    errored: 0,
    costSource: 'metered',
    methods: { rank: 'r', frontierProbability: 'f' },
  },
})

const releaseOf = (settings: ReleaseSetting[]): Release => ({
  schemaVersion: 1,
  releaseId: 'r',
  releasedAt: '2026-01-01T00:00:00.000Z',
  repository: { id: 1, fullName: 'a/b' },
  publisher: { login: 'a', kind: 'org' },
  tasks: 10,
  settings,
  frontier: settings.map(({ id }) => id),
  disclosure: {
    settings: { run: 1, published: 1 },
    trials: { run: 1, scored: 1, errored: 0, voided: 0 },
    tasks: { approved: 10, published: 10, excluded: [] },
    attempts: { min: 1, max: 1 },
    harnesses: [],
    sandboxes: [],
    verifyModes: [],
    isolation: [],
    resources: null,
    comparisons: { count: 1, from: null, to: null },
  },
  prices: {
    at: null,
    models: settings.map(({ model }) => ({ catalogId: model.catalogId, prices: { input: 1, output: 3 } })),
  },
})

test('a cost changes by the ratio of the prices of its tokens, and the frontier follows', () => {
  const [dear, cheap] = [
    settingOf('dear|mini|low', { passed: 8, cost: 0.5 }),
    settingOf('cheap|mini|low', { passed: 5, cost: 0.1 }),
  ]
  const now = new Map([
    ['dear', { input: 0.1, output: 0.3 }],
    ['cheap', { input: 1, output: 3 }],
  ])
  const { release, unconverted } = reprice(releaseOf([cheap, dear]), now)
  expect(unconverted).toEqual([])
  expect(release.settings.map(({ costPerTaskUsd }) => costPerTaskUsd)).toEqual([0.1, expect.closeTo(0.05, 9)])
  expect(release.frontier).toEqual(['dear|mini|low'])
  expect(release.settings.map(({ onFrontier, stats }) => [onFrontier, stats.frontierProbability])).toEqual([
    [false, null],
    [true, null],
  ])
})

test('settings without tokens, without a list price or with a model of their own keep their cost', () => {
  const settings = [
    settingOf('untold|mini|low', { passed: 5, cost: 0.2, usage: null }),
    settingOf('unknown|mini|low', { passed: 5, cost: 0.2 }),
    settingOf('custom/x|mini|low', { passed: 5, cost: 0.2, custom: true }),
  ]
  const now = new Map(['untold', 'custom/x'].map((id) => [id, { input: 9, output: 9 }]))
  const { release, unconverted } = reprice(releaseOf(settings), now)
  expect(unconverted).toEqual(settings.map(({ id }) => id))
  expect(release.settings.map(({ costPerTaskUsd }) => costPerTaskUsd)).toEqual([0.2, 0.2, 0.2])
})

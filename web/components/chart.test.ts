import { expect, test } from 'vitest'
import { drawFrontierChart } from './chart.ts'

const setting = (id: string, accuracy: number, costPerTaskUsd: number, onFrontier = true) => ({
  ...{ id, accuracy, costPerTaskUsd, onFrontier, harness: 'claude-code', reasoningLevel: 'high' },
  model: { catalogId: id, name: id, label: 'Claude Sonnet 5', provider: 'anthropic', custom: false },
  stats: { ci95: null },
})

test('no label lies on the line of the frontier, also not beyond its last point', async () => {
  const settings = [setting('cheap', 74, 0.012), setting('best', 89, 0.025), setting('dear', 60, 0.2, false)]
  const release = { settings, frontier: ['cheap', 'best'], releasedAt: '2026-11-16T00:00:00Z', prices: { at: null } }
  const drawing = String(await drawFrontierChart(release as never))
  const [, line = ''] = /<path class="steps" d="([^"]+)"/.exec(drawing) ?? []
  const lastY = Number(/V([\d.]+)H[\d.]+$/.exec(line)?.[1])
  const lastX = Number(/H([\d.]+)V[\d.]+H[\d.]+$/.exec(line)?.[1])
  const [, x, y, anchor] = /<text class="label on" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)"/.exec(drawing) ?? []
  const isOnLine = anchor === 'start' && Number(x) > lastX && Math.abs(Number(y) - lastY) < 8
  expect({ x, y, anchor, isOnLine }).toMatchObject({ isOnLine: false })
  expect(lastY).toBeGreaterThan(0)
})

import { expect, test } from 'vitest'
import { resolveUpstream } from '../credentials/providers.ts'
import { LEVELS } from '../harnesses/model-access.ts'
import { findPricesAt, type Prices } from './model.ts'
import { snapshot } from './models.ts'

const { models } = snapshot

test('the snapshot has a few dozen distinct models of known providers', () => {
  expect(models.length).toBeGreaterThanOrEqual(25)
  expect(new Set(models.map(({ catalogId }) => catalogId)).size).toBe(models.length)
  expect(models.filter(({ catalogId, provider, name }) => catalogId !== `${provider}/${name}`)).toEqual([])
  for (const { provider } of models)
    expect(resolveUpstream({ provider, baseUrl: null }, {}, 'operator').url).toMatch(/^https:/)
})

test.each(models)('the levels of $catalogId come in order, each once, and the default is one of them', (model) => {
  const levels = model.levels.map(({ level }) => level)
  expect(levels).toEqual(LEVELS.filter((level) => levels.includes(level)))
  expect(levels).toContain(model.defaultLevel)
  const wires = model.levels.map(({ wire }) => JSON.stringify(wire))
  expect(new Set(wires).size).toBe(wires.length)
  const budgets = model.levels.flatMap(({ wire }) => ('budgetTokens' in wire ? [wire.budgetTokens] : []))
  expect(budgets).toEqual([...budgets].sort((a, b) => a - b))
  expect(budgets.filter((budget) => budget < 1024 || budget >= model.outputTokens)).toEqual([])
})

test.each(models)('$catalogId has plausible prices', (model) => {
  expect(model.outputTokens).toBeLessThanOrEqual(model.contextTokens)
  expect(model.prices.map(({ validFrom }) => validFrom)[0]).toBeNull()
  const later = model.prices.slice(1).map(({ validFrom }) => validFrom ?? '')
  expect(later).toEqual(later.toSorted())
  for (const { prices } of model.prices) {
    expect(oddities(prices)).toEqual([])
    const [tier] = prices.tiers ?? []
    if (tier) expect([tier.input > prices.input, tier.output > prices.output, oddities(tier)]).toEqual([true, true, []])
  }
})

/** What is outside of what a reader would believe. */
function oddities({ input, output, cacheRead, cacheWrite5m, cacheWrite1h }: Omit<Prices, 'tiers'>): string[] {
  const believed: [string, number | undefined, number, number][] = [
    ['input', input, 0.01, 100],
    ['output', output, input, 500],
    ['cacheRead', cacheRead, 0.001, input],
    ['cacheWrite5m', cacheWrite5m, input, 2 * input],
    ['cacheWrite1h', cacheWrite1h, cacheWrite5m ?? 0, 2 * input],
  ]
  return believed
    .filter(([, price, low, high]) => price !== undefined && (price < low || price > high))
    .map(([name, price]) => `${name} ${price}`)
}

test('every knowledge cutoff has a source', () => {
  for (const { knowledgeCutoff, cutoffSource } of snapshot.models)
    expect(cutoffSource === null).toBe(knowledgeCutoff === null)
})

test('uses the prices that are valid on the day', () => {
  const dated = [
    { validFrom: null, prices: { input: 1, output: 2 } },
    { validFrom: '2027-01-01', prices: { input: 3, output: 4 } },
  ]
  expect(findPricesAt(dated, new Date('2026-12-31T23:59:59.999Z'))?.input).toBe(1)
  expect(findPricesAt(dated, new Date('2027-01-01T00:00:00Z'))?.input).toBe(3)
})

import { expect, test } from 'vitest'
import type { SnapshotModel } from '../src/catalog/models.ts'
import { buildModel, type SourceModel } from './catalog-build.ts'
import { compareSnapshots } from './catalog-changes.ts'
import { convertPlainPrices, listCurrentPrices } from './catalog-prices.ts'

const today = new Date('2026-11-15T00:00:00Z')
const chat = { provider: 'house', protocols: ['openai-chat' as const] }
const pick = { name: 'm-1', label: 'M 1', knowledgeCutoff: null, cutoffSource: null, defaultLevel: 'low' as const }

const sourceModel = (over: Partial<SourceModel> = {}): SourceModel => ({
  contextTokens: 1000,
  prices: [{ validFrom: null, prices: { input: 1, output: 2 } }],
  ...over,
})
const reasoning: NonNullable<SourceModel['reasoning']> = {
  canReason: true,
  effortByLevel: { off: 'none', low: 'low', high: 'high', max: null },
  isAdaptive: false,
}
const detailed = sourceModel({ outputTokens: 100, reasoning })

const buildValidModel = (
  group: typeof chat | { provider: string; protocols: SnapshotModel['protocols'] },
  ...all: SourceModel[]
) => {
  const model = buildModel(group, pick, all)
  if (typeof model === 'string') throw new Error(model)
  return model
}

test('accepts a model on which two catalogs agree', () => {
  expect(buildValidModel(chat, detailed, sourceModel())).toMatchObject({
    catalogId: 'house/m-1',
    contextTokens: 1000,
    outputTokens: 100,
  })
})

test.each([
  ['fewer than two catalogs know it', [detailed]],
  ['its price depends on the hour', [detailed, sourceModel({ prices: undefined })]],
  [
    /^catalogs disagree on its price/,
    [detailed, sourceModel({ prices: [{ validFrom: null, prices: { input: 9, output: 2 } }] })],
  ],
  ['no two catalogs agree on its context', [detailed, sourceModel({ contextTokens: 999 })]],
  ['no catalog knows its reasoning levels', [sourceModel(), sourceModel()]],
  [
    'it has no level low',
    [sourceModel({ outputTokens: 1, reasoning: { ...reasoning, effortByLevel: { high: 'high' } } }), sourceModel()],
  ],
])('rejects a model: %s', (reason, all) => {
  expect(buildModel(chat, pick, all)).toMatch(reason)
})

test('writes reasoning levels in the form of each protocol', () => {
  const levels = (protocols: SnapshotModel['protocols'], over: Partial<typeof reasoning> = {}) => {
    const one = sourceModel({ outputTokens: 100_000, reasoning: { ...reasoning, ...over } })
    const found = buildModel({ provider: 'house', protocols }, { ...pick, defaultLevel: 'low' }, [one, sourceModel()])
    return typeof found === 'string' ? found : found.levels.map(({ level, wire }) => `${level} ${JSON.stringify(wire)}`)
  }
  expect(levels(['openai-responses', 'openai-chat'])[0]).toBe('none {"effort":"none"}')
  expect(levels(['openai-chat'])[0]).toBe('none {"off":true}')
  expect(levels(['openai-chat'])).toHaveLength(3)
  expect(levels(['anthropic-messages'], { isAdaptive: true, effortByLevel: { off: null, xhigh: 'xhigh' } })).toEqual(
    ['low', 'medium', 'high', 'xhigh'].map((level) => `${level} {"effort":"${level}"}`),
  )
  expect(levels(['anthropic-messages'], { effortByLevel: {} })[1]).toBe('low {"budgetTokens":4000}')
  expect(levels(['openai-chat'], { canReason: false })).toBe('it has no level low')
})

test('keeps dated prices from today on and ignores prices by the hour', () => {
  const rates = (input: number) => ({ input_mtok: input, output_mtok: { base: 2, tiers: [{ start: 199, price: 3 }] } })
  const start = (start_date: string) => ({ type: 'start_date' as const, start_date })
  const list = [
    { prices: rates(1) },
    { constraint: start('2026-03-13'), prices: rates(5) },
    { constraint: start('2027-01-01'), prices: rates(7) },
  ]
  expect(listCurrentPrices(list, today)).toEqual([
    { validFrom: null, prices: { input: 5, output: 2, tiers: [{ aboveInputTokens: 199, input: 5, output: 3 }] } },
    {
      validFrom: '2027-01-01',
      prices: { input: 7, output: 2, tiers: [{ aboveInputTokens: 199, input: 7, output: 3 }] },
    },
  ])
  expect(
    listCurrentPrices([...list, { constraint: { type: 'time_of_date' }, prices: rates(9) }], today),
  ).toBeUndefined()
})

test('has no current price before the first dated one', () => {
  const rates = (input: number) => ({ input_mtok: input, output_mtok: 2 })
  const start = (start_date: string) => ({ type: 'start_date' as const, start_date })
  const list = [
    { constraint: start('2027-01-01'), prices: rates(7) },
    { constraint: start('2028-01-01'), prices: rates(9) },
  ]
  expect(listCurrentPrices(list, today)).toEqual([
    { validFrom: '2027-01-01', prices: { input: 7, output: 2 } },
    { validFrom: '2028-01-01', prices: { input: 9, output: 2 } },
  ])
})

test('treats zero in a plain price list as a missing price', () => {
  expect(convertPlainPrices({ input: 1, output: 2, cacheRead: 0, cacheWrite: 0 })).toEqual({ input: 1, output: 2 })
})

const row = (input: number, over: Partial<SnapshotModel> = {}): SnapshotModel => ({
  ...buildValidModel(chat, detailed, sourceModel()),
  prices: [{ validFrom: null, prices: { input, output: 2 } }],
  ...over,
})

test('flags a removed model and a tenfold price, and lists other changes', () => {
  expect(compareSnapshots([row(1)], [], today).surprises).toEqual(['house/m-1 was removed.'])
  expect(compareSnapshots([row(1)], [row(10)], today).surprises).toEqual(['house/m-1: input goes from 1 to 10.'])
  expect(compareSnapshots([row(10)], [row(0)], today).surprises).toHaveLength(1)
  expect(compareSnapshots([row(1)], [row(1.5, { label: 'M one' })], today)).toMatchObject({
    surprises: [],
    lines: { length: 2 },
  })
  expect(compareSnapshots([], [row(1)], today)).toEqual({ surprises: [], lines: ['+ house/m-1'] })
  expect(compareSnapshots([row(1)], [row(1)], today)).toEqual({ surprises: [], lines: [] })
})

import { expect, test } from 'vitest'
import { addModel, EMPTY_DRAFT, toCommand, toQuoteBody } from './draft.ts'

const CREDENTIAL = '00000000-0000-4000-8000-000000000001'
const model = {
  catalogId: 'acme/large',
  name: 'large',
  label: 'Large',
  provider: 'acme',
  custom: false,
  reasoningLevels: ['low', 'high'],
  defaultReasoningLevel: 'high',
  harnesses: ['mini', 'other'],
  harnessLevels: { mini: ['low'], other: ['low', 'high'] },
  contextTokens: 1000,
  knowledgeCutoff: null,
  prices: { input: 1, output: 2 },
  credentials: [{ id: CREDENTIAL, name: 'Team' }],
}

test('a model is added with its default level and a harness that supports it', () => {
  const models = addModel(addModel([], model), model)
  expect(models.map(({ key, level, harnesses }) => [key, level, harnesses])).toEqual([
    [1, 'high', ['other']],
    [2, 'high', ['other']],
  ])
})

test('the request and the command are equivalent', () => {
  const draft = { ...EMPTY_DRAFT, models: addModel([], model), sandbox: 'docker', attempts: '3', budget: '12.5' }
  expect(toQuoteBody(draft)).toEqual({
    models: [{ catalogId: 'acme/large', credentialId: CREDENTIAL, harnesses: ['other'], reasoningLevel: 'high' }],
    attempts: 3,
    budgetUsd: 12.5,
    trialBudgetUsd: undefined,
    concurrency: undefined,
    skipCompleted: false,
  })
  expect(toCommand({ kind: 'repository', name: 'acme/billing' }, draft)).toBe(
    'assay compare --repo acme/billing --model acme/large@high=other --sandbox docker --attempts 3 --budget 12.5',
  )
})

test('every model runs with each configuration, except the reference solution', () => {
  const reference = { ...model, catalogId: 'reference', provider: 'none' }
  const models = addModel(addModel([], model), reference)
  const draft = { ...EMPTY_DRAFT, models, configurations: ['none', 'rules@2'] }
  expect(toQuoteBody(draft)?.models.map(({ catalogId, configuration }) => [catalogId, configuration])).toEqual([
    ['acme/large', undefined],
    ['acme/large', 'rules@2'],
    ['reference', undefined],
  ])
  expect(toCommand({ kind: 'benchmark', name: 'assay/quick' }, draft)).toContain(
    '--configuration none --configuration rules@2',
  )
})

test('nothing is quoted while no harness is chosen', () => {
  const [first] = addModel([], model)
  expect(toQuoteBody(EMPTY_DRAFT)).toBeUndefined()
  expect(first && toQuoteBody({ ...EMPTY_DRAFT, models: [{ ...first, harnesses: [] }] })).toBeUndefined()
})

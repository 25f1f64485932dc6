import type { CatalogModel } from './schema.ts'

export type Model = Omit<CatalogModel, 'credentials'>

/** Every model that can be compared. Adding one is adding a row. */
export const models: readonly Model[] = [
  {
    catalogId: 'reference',
    name: 'Reference',
    label: 'Reference',
    provider: 'none',
    custom: false,
    reasoningLevels: ['none'],
    defaultReasoningLevel: 'none',
    harnesses: ['oracle', 'nop'],
    prices: { input: 0, output: 0 },
  },
]

export const findModel = (catalogId: string): Model | undefined => models.find((model) => model.catalogId === catalogId)

import type { GenerationOptions, NewGeneration } from '../schema.ts'

type OfferedModel = GenerationOptions['models'][number]

/** Minimum price in USD per million output tokens. The catalog has no other sign of how capable a model is. */
const RECOMMENDED_OUTPUT_USD = 6

/** Returns true if a model is recommended as author or verifier. Cheaper ones write tasks that are rejected more often. */
export const isRecommended = ({ prices }: OfferedModel): boolean => prices.output >= RECOMMENDED_OUTPUT_USD

/** Warns about an author or verifier below the recommendation. */
export function warnOfSmallModels(
  models: readonly OfferedModel[],
  { authorModel, verifierModel }: Pick<NewGeneration, 'authorModel' | 'verifierModel'>,
): string[] {
  const roles = [
    ['author', authorModel],
    ['verifier', verifierModel],
  ] as const
  return roles.flatMap(([role, id]) =>
    models.some((model) => model.catalogId === id && !isRecommended(model))
      ? [
          `The ${role} model ${id} is below the recommendation of $${RECOMMENDED_OUTPUT_USD} per million output tokens: expect more rejected tasks, and review the others carefully.`,
        ]
      : [],
  )
}

import type { Catalog } from '../src/catalog/schema.ts'

type ComparedModels = { models: readonly { catalogId: string }[] }

/** Returns a warning for each model that may know some of the changes, because they were merged before its cutoff. */
export function warnOfKnownTasks(catalog: Catalog, { models }: ComparedModels, mergedAt: readonly string[]): string[] {
  const compared = new Set(models.map(({ catalogId }) => catalogId))
  return catalog.models.flatMap(({ catalogId, knowledgeCutoff }) => {
    if (!compared.has(catalogId) || knowledgeCutoff === null) return []
    const older = mergedAt.filter((time) => time.slice(0, knowledgeCutoff.length) <= knowledgeCutoff).length
    if (older === 0) return []
    return [
      `${catalogId} has a knowledge cutoff of ${knowledgeCutoff}: ${older} of ${mergedAt.length} tasks were merged before that, and it may know them.`,
    ]
  })
}

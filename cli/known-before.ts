import type { Catalog } from '../src/catalog/schema.ts'

type Chosen = { models: readonly { catalogId: string }[] }

/** Of each model that was chosen: how many of these changes were public before its knowledge ends. Nothing where nobody knows. */
export function knownBefore(catalog: Catalog, { models }: Chosen, mergedAt: readonly string[]): string[] {
  const chosen = new Set(models.map(({ catalogId }) => catalogId))
  return catalog.models.flatMap(({ catalogId, knowledgeCutoff }) => {
    if (!chosen.has(catalogId) || knowledgeCutoff === null) return []
    const older = mergedAt.filter((time) => time.slice(0, knowledgeCutoff.length) <= knowledgeCutoff).length
    if (older === 0) return []
    return [
      `${catalogId} has learnt from texts until ${knowledgeCutoff}: ${older} of ${mergedAt.length} tasks were merged before that, and it may remember them.`,
    ]
  })
}

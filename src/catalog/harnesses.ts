import type { CatalogHarness } from './schema.ts'

/** A change that can change results is a new version: trials of two versions are never mixed. */
export const catalogHarnesses: readonly CatalogHarness[] = [
  { id: 'oracle', name: "The author's solution", version: '1', protocols: [] },
  { id: 'nop', name: 'Nothing at all', version: '1', protocols: [] },
]

export const findCatalogHarness = (id: string): CatalogHarness | undefined =>
  catalogHarnesses.find((harness) => harness.id === id)

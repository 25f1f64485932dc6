import type { Harness } from '../harnesses/harness.ts'
import { findHarness, harnesses } from '../harnesses/harnesses.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import type { Db } from '../platform/db/db.ts'
import { findCustomHarness, listCustomHarnesses } from './custom-harnesses/custom-harnesses.ts'
import { findWire, type Model, traitsOf } from './model.ts'
import type { CatalogHarness } from './schema.ts'

/** Everything that can work on tasks of a workspace: ours, then its own. */
export const listHarnesses = async (db: Db, workspaceId: string): Promise<Harness[]> => [
  ...harnesses,
  ...(await listCustomHarnesses(db, workspaceId)),
]

/** The one that a setting was made with. */
export const findChosenHarness = async (
  db: Db,
  workspaceId: string,
  { id, version }: { id: string; version: string },
) => findHarness(id) ?? (await findCustomHarness(db, workspaceId, id, version))

export const shownHarness = ({ id, name, version, protocols }: Harness): CatalogHarness => ({
  ...{ id, name, version, protocols: [...protocols] },
})

/** The levels at which each harness can drive a model, without those that cannot at any. */
export const levelsByHarness = (known: readonly Harness[], model: Model): Record<string, string[]> =>
  Object.fromEntries(
    known.flatMap((harness) => {
      const levels = model.levels.map(({ level }) => level).filter((level) => canDrive(harness, model, level))
      return levels.length > 0 ? [[harness.id, levels]] : []
    }),
  )

/** Whether it can ask this model for exactly this level. */
export const canDrive = (harness: Harness, model: Model, level: string): boolean =>
  harness.isControl ? model.protocols.length === 0 : findSpeech(harness, model, level) !== undefined

/** How it asks: what a grant is held to, and what the harness is told. */
export function findSpeech(harness: Harness, model: Model, level: string): Speech | undefined {
  const known = findWire(model, level)
  const protocol = known && harness.protocolFor(traitsOf(model), known.level, known.wire)
  return protocol && { ...traitsOf(model), protocol, level: known.level, wireLevel: known.wire }
}

type Speech = Omit<ModelAccess, 'baseUrl' | 'token'>

import type { Harness } from '../harnesses/harness.ts'
import { findHarness, harnesses } from '../harnesses/harnesses.ts'
import type { ModelAccess } from '../harnesses/model-access.ts'
import type { Db } from '../platform/db/db.ts'
import { findCustomHarness, listCustomHarnesses } from './custom-harnesses/custom-harnesses.ts'
import { findModelLevel, type Model, toTraits } from './model.ts'
import type { CatalogHarness } from './schema.ts'

/** Lists the harnesses of a workspace: built-in ones, then its own. */
export const listHarnesses = async (db: Db, workspaceId: string): Promise<Harness[]> => [
  ...harnesses,
  ...(await listCustomHarnesses(db, workspaceId)),
]

/** Finds the harness of a setting. */
export const findChosenHarness = async (
  db: Db,
  workspaceId: string,
  { id, version }: { id: string; version: string },
) => findHarness(id) ?? (await findCustomHarness(db, workspaceId, id, version))

export const toCatalogHarness = ({ id, name, version, protocols }: Harness): CatalogHarness => ({
  id,
  name,
  version,
  protocols: [...protocols],
})

/** Lists the reasoning levels that each harness supports with a model. Omits harnesses without any. */
export const listLevelsByHarness = (known: readonly Harness[], model: Model): Record<string, string[]> =>
  Object.fromEntries(
    known.flatMap((harness) => {
      const levels = model.levels.map(({ level }) => level).filter((level) => canDrive(harness, model, level))
      return levels.length > 0 ? [[harness.id, levels]] : []
    }),
  )

/** Returns whether a harness can request exactly this level of a model. */
export const canDrive = (harness: Harness, model: Model, level: string): boolean =>
  harness.isControl ? model.protocols.length === 0 : resolveProtocol(harness, model, level) !== undefined

/** Resolves the protocol and wire level that a harness uses with a model, for the grant and the harness. */
export function resolveProtocol(harness: Harness, model: Model, level: string): ModelTerms | undefined {
  const known = findModelLevel(model, level)
  const protocol = known && harness.protocolFor(toTraits(model), known.level, known.wire)
  return protocol && { ...toTraits(model), protocol, level: known.level, wireLevel: known.wire }
}

type ModelTerms = Omit<ModelAccess, 'baseUrl' | 'token'>

import type { Db } from '../platform/db/db.ts'
import { findCustomModel, listCustomModels } from './custom-models.ts'
import { findPricesAt, type Model } from './model.ts'
import { snapshot } from './snapshot.ts'

/** The pseudo-model of the reference solution: calls no provider and costs nothing. */
const reference: Model = {
  catalogId: 'reference',
  name: 'Reference',
  label: 'Reference',
  provider: 'none',
  custom: false,
  protocols: [],
  contextTokens: 0,
  outputTokens: 0,
  knowledgeCutoff: null,
  levels: [{ level: 'none', wire: { nothing: true } }],
  defaultLevel: 'none',
  prices: { input: 0, output: 0 },
  baseUrl: null,
}

/** Lists the models of a workspace: public ones, then its own. */
export async function listModels(db: Db, workspaceId: string): Promise<Model[]> {
  return [...listPublicModels(), ...(await listCustomModels(db, workspaceId))]
}

/** Finds a model. `alsoRemoved` includes removed custom models, for work that was started with them. */
export const findModel = async (
  db: Db,
  workspaceId: string,
  catalogId: string,
  options?: { alsoRemoved: boolean },
): Promise<Model | undefined> =>
  listPublicModels().find((model) => model.catalogId === catalogId) ??
  (await findCustomModel(db, workspaceId, catalogId, options))

/** Lists public models with their prices at this time, because prices change by date. */
export const listPublicModels = (now = new Date()): Model[] => [
  reference,
  ...snapshot.models.flatMap(({ prices: dated, ...model }) => {
    const prices = findPricesAt(dated, now)
    return prices ? [{ ...model, custom: false, baseUrl: null, prices }] : []
  }),
]

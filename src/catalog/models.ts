import type { Db } from '../platform/db/db.ts'
import { findCustomModel, listCustomModels } from './custom-models.ts'
import type { Model } from './model.ts'
import { pricesAt } from './prices.ts'
import { snapshot } from './snapshot.ts'

/** What the task itself can do: nobody is asked, and nothing is paid. */
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

/** Everything that a workspace can compare: what everybody has, then its own. */
export async function listModels(db: Db, workspaceId: string): Promise<Model[]> {
  return [...publicModels(), ...(await listCustomModels(db, workspaceId))]
}

/** With `alsoRemoved` a workspace's own is found after its removal too: what was begun with it goes on. */
export const findModel = async (
  db: Db,
  workspaceId: string,
  catalogId: string,
  options?: { alsoRemoved: boolean },
): Promise<Model | undefined> =>
  publicModels().find((model) => model.catalogId === catalogId) ??
  (await findCustomModel(db, workspaceId, catalogId, options))

/** Prices change on a day, so they are asked for when they are needed. */
export const publicModels = (now = new Date()): Model[] => [
  reference,
  ...snapshot.models.flatMap(({ prices: dated, ...model }) => {
    const prices = pricesAt(dated, now)
    return prices ? [{ ...model, custom: false, baseUrl: null, prices }] : []
  }),
]

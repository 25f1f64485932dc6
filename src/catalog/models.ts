import { z } from 'zod'
import { LEVELS, PROTOCOLS } from '../harnesses/model-access.ts'
import type { Db } from '../platform/db/db.ts'
import { findCustomModel, listCustomModels } from './custom-models.ts'
import { DatedPrices, findPricesAt, type Model } from './model.ts'
import modelsJson from './models.json' with { type: 'json' }

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

const Level = z.enum(LEVELS)

/** The form in which a reasoning level is requested. `off`: reasoning is switched off explicitly. `nothing`: no field is sent. */
const WireLevel = z.union([
  z.strictObject({ effort: z.string().min(1) }),
  z.strictObject({ budgetTokens: z.number().int().min(1) }),
  z.strictObject({ off: z.literal(true) }),
  z.strictObject({ nothing: z.literal(true) }),
])

const ModelLevel = z.strictObject({ level: Level, wire: WireLevel })

/**
 * Source of the knowledge cutoff, which price lists do not contain. `maker`: copied by hand from a publication of the
 * model's maker. `confirmed`: the same, and models.dev (as included in OpenCode 1.18.18) agrees. Null: cutoff unknown.
 */
export const CutoffSource = z.enum(['maker', 'confirmed']).nullable()

export const SnapshotModel = z.strictObject({
  catalogId: z.string().regex(/^[a-z0-9-]+(\/[A-Za-z0-9._:-]+){1,2}$/),
  /** Name in requests to the provider. */
  name: z.string().min(1),
  label: z.string().min(1),
  provider: z.string().min(1),
  /** Protocols that its provider supports, the provider's own first. */
  protocols: z.array(z.enum(PROTOCOLS)).min(1),
  contextTokens: z.number().int().min(1),
  outputTokens: z.number().int().min(1),
  /** Month of the newest training data. Null: not published. */
  knowledgeCutoff: z
    .string()
    .regex(/^\d{4}-\d{2}$/)
    .nullable(),
  cutoffSource: CutoffSource,
  levels: z.array(ModelLevel).min(1),
  defaultLevel: Level,
  prices: z.array(DatedPrices).min(1),
})
export type SnapshotModel = z.infer<typeof SnapshotModel>

export const Snapshot = z.strictObject({
  asOf: z.iso.date(),
  /** Catalogs that the snapshot was built from. */
  sources: z.array(z.string()),
  models: z.array(SnapshotModel),
})
export type Snapshot = z.infer<typeof Snapshot>

/** Reviewed model data from public catalogs. Written only by `npm run catalog`. */
export const snapshot: Snapshot = Snapshot.parse(modelsJson)

import { z } from 'zod'
import { LEVELS, PROTOCOLS } from '../harnesses/model-access.ts'
import written from './models.json' with { type: 'json' }
import { DatedPrices } from './prices.ts'

const Level = z.enum(LEVELS)

const WireLevel = z.union([
  z.strictObject({ effort: z.string().min(1) }),
  z.strictObject({ budgetTokens: z.number().int().min(1) }),
  z.strictObject({ off: z.literal(true) }),
  z.strictObject({ nothing: z.literal(true) }),
])

const ModelLevel = z.strictObject({ level: Level, wire: WireLevel })

/**
 * Who says until when a model has learnt, which no price list does. `maker`: its maker, read by hand. `confirmed`: also
 * models.dev, as OpenCode 1.18.18 carries it. Null: there is no month.
 */
export const CutoffSource = z.enum(['maker', 'confirmed']).nullable()

export const SnapshotModel = z.strictObject({
  catalogId: z.string().regex(/^[a-z0-9-]+(\/[A-Za-z0-9._:-]+){1,2}$/),
  /** The name on the wire. */
  name: z.string().min(1),
  label: z.string().min(1),
  provider: z.string().min(1),
  /** Those in which its provider serves it, the provider's own first. */
  protocols: z.array(z.enum(PROTOCOLS)).min(1),
  contextTokens: z.number().int().min(1),
  outputTokens: z.number().int().min(1),
  /** Month of the youngest text that it has learnt from. Null: its maker does not say. */
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
  /** What it was made of. */
  sources: z.array(z.string()),
  models: z.array(SnapshotModel),
})
export type Snapshot = z.infer<typeof Snapshot>

/** What public catalogs say of models, reviewed. Written by `npm run catalog`, and by nothing else. */
export const snapshot: Snapshot = Snapshot.parse(written)

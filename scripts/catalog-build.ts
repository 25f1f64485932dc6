import { z } from 'zod'
import type { DatedPrices, Prices } from '../src/catalog/model.ts'
import { CutoffSource, type SnapshotModel } from '../src/catalog/models.ts'
import { LEVELS, PROTOCOLS } from '../src/harnesses/model-access.ts'

/**
 * Reasoning data of a catalog. `effortByLevel` has the value that a request sends for each level, or null if the model does
 * not support the level. An adaptive model chooses its token budget itself.
 */
type SourceReasoning = { canReason: boolean; effortByLevel: Record<string, string | null>; isAdaptive: boolean }

/** A model as one catalog describes it. */
export type SourceModel = {
  contextTokens?: number | undefined
  outputTokens?: number
  reasoning?: SourceReasoning
  /** Undefined if the snapshot cannot express the prices. */
  prices: DatedPrices[] | undefined
}

const PickedModel = z.strictObject({
  name: z.string(),
  label: z.string(),
  knowledgeCutoff: z.string().nullable(),
  cutoffSource: CutoffSource,
  defaultLevel: z.enum(LEVELS),
  /** Values from the provider's own documentation, for cases where the catalogs disagree. */
  contextTokens: z.number().optional(),
})
type PickedModel = z.infer<typeof PickedModel>

/** The offered models by provider, with data that no catalog has. Maintained by hand. */
export const Picks = z.record(
  z.string(),
  z.strictObject({
    providers: z.strictObject({ pi: z.string(), genai: z.string(), dev: z.string() }),
    protocols: z.array(z.enum(PROTOCOLS)).min(1),
    models: z.array(PickedModel),
  }),
)

type ProviderGroup = Pick<z.infer<typeof Picks>[string], 'protocols'> & { provider: string }

/** Builds a model of the snapshot, or returns why it is rejected: two catalogs must list it, and all must agree. */
export function buildModel(
  group: ProviderGroup,
  pick: PickedModel,
  sources: readonly SourceModel[],
): SnapshotModel | string {
  const prices = findAgreedPrices(sources)
  if (typeof prices === 'string') return prices
  const contextTokens = pick.contextTokens ?? findAgreedContext(sources)
  if (contextTokens === undefined) return 'no two catalogs agree on its context'
  const detailed = sources.find(({ reasoning }) => reasoning)
  if (!detailed?.reasoning || detailed.outputTokens === undefined) return 'no catalog knows its reasoning levels'
  const levels = toLevels(group, detailed.reasoning)
  if (!levels.some(({ level }) => level === pick.defaultLevel)) return `it has no level ${pick.defaultLevel}`
  return {
    catalogId: `${group.provider}/${pick.name}`,
    name: pick.name,
    label: pick.label,
    provider: group.provider,
    protocols: group.protocols,
    contextTokens,
    outputTokens: detailed.outputTokens,
    knowledgeCutoff: pick.knowledgeCutoff,
    cutoffSource: pick.cutoffSource,
    levels,
    defaultLevel: pick.defaultLevel,
    prices,
  }
}

/**
 * Returns the prices of the catalog with the most data if all catalogs agree on the current ones, otherwise the reason for
 * rejecting the model. Prices for long contexts may come from another catalog.
 */
function findAgreedPrices(sources: readonly SourceModel[]): DatedPrices[] | string {
  if (sources.length < 2) return 'fewer than two catalogs know it'
  const priceLists = sources.flatMap(({ prices }) => (prices ? [prices] : []))
  if (priceLists.length < sources.length) return 'its price depends on the hour'
  const currentPrices = priceLists.flatMap(([first]) => (first ? [first.prices] : []))
  if (new Set(currentPrices.map(formatRates)).size > 1)
    return `catalogs disagree on its price: ${currentPrices.map(formatRates).join(' / ')}`
  const tierLists = currentPrices.flatMap(({ tiers }) => (tiers ? [tiers] : []))
  if (new Set(tierLists.map((tiers) => tiers.map(formatRates).join())).size > 1)
    return 'catalogs disagree on its long-context price'
  const [current, ...future] = priceLists.toSorted((a, b) => scoreDetail(b) - scoreDetail(a))[0] ?? []
  if (!current) return []
  const tiers = current.prices.tiers ?? tierLists[0]
  return [tiers ? { ...current, prices: { ...current.prices, tiers } } : current, ...future]
}

const formatRates = ({ input, output, cacheRead }: Pick<Prices, 'input' | 'output' | 'cacheRead'>): string =>
  `${input} in, ${output} out, ${cacheRead ?? 'no'} cached`

/** Weight of a dated price: more than the number of rates of any price. */
const DATED_PRICE_WEIGHT = 100

/** Scores how much a catalog knows about prices: first by the number of dated prices, then by the number of rates. */
const scoreDetail = (prices: DatedPrices[]): number =>
  prices.length * DATED_PRICE_WEIGHT + prices.reduce((sum, { prices: each }) => sum + countDefined(each), 0)

const countDefined = (prices: Prices): number => Object.values(prices).filter((price) => price !== undefined).length

/** Returns the first context length that two catalogs have in common. */
function findAgreedContext(sources: readonly SourceModel[]): number | undefined {
  const lengths = sources.flatMap(({ contextTokens }) => (contextTokens === undefined ? [] : [contextTokens]))
  return lengths.find((tokens, index) => lengths.indexOf(tokens) !== index)
}

/** Returns the name of a level in public catalogs: `off` for `none`. */
const toSourceLevel = (level: string): string => (level === 'none' ? 'off' : level)

/** Token budgets of levels, for models that take a budget instead of an effort. */
const BUDGETS: SnapshotModel['levels'] = [
  { level: 'low', wire: { budgetTokens: 4000 } },
  { level: 'medium', wire: { budgetTokens: 8000 } },
  { level: 'high', wire: { budgetTokens: 16_000 } },
  { level: 'max', wire: { budgetTokens: 31_999 } },
]

function toLevels(
  { protocols }: ProviderGroup,
  { canReason, effortByLevel, isAdaptive }: SourceReasoning,
): SnapshotModel['levels'] {
  const isAnthropic = protocols.includes('anthropic-messages')
  const hasNoLevels = !isAnthropic && Object.keys(effortByLevel).length === 0
  if (!canReason || hasNoLevels) return [{ level: 'none', wire: { nothing: true } }]
  if (!isAnthropic) return toEffortLevels(effortByLevel, protocols)
  const none: SnapshotModel['levels'] = effortByLevel.off === null ? [] : [{ level: 'none', wire: { off: true } }]
  return [...none, ...(isAdaptive ? toAdaptiveLevels(effortByLevel) : BUDGETS)]
}

/** Levels that every reasoning model supports; catalogs list only the others. */
const ALWAYS_ADAPTIVE: readonly string[] = ['low', 'medium', 'high']

const toAdaptiveLevels = (effortByLevel: SourceReasoning['effortByLevel']): SnapshotModel['levels'] =>
  LEVELS.flatMap((level) => {
    const effort = effortByLevel[level] ?? (ALWAYS_ADAPTIVE.includes(level) ? level : undefined)
    return effort && level !== 'minimal' ? [{ level, wire: { effort } }] : []
  })

/** Returns the levels of models that take an effort. Only the Responses API takes one for `none`; others have a switch. */
const toEffortLevels = (
  effortByLevel: SourceReasoning['effortByLevel'],
  protocols: readonly string[],
): SnapshotModel['levels'] =>
  LEVELS.flatMap((level) => {
    const effort = effortByLevel[toSourceLevel(level)]
    if (!effort) return []
    const isSwitch = level === 'none' && !protocols.includes('openai-responses')
    return [{ level, wire: isSwitch ? { off: true as const } : { effort } }]
  })

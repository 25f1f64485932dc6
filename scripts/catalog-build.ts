import { z } from 'zod'
import type { DatedPrices, Prices } from '../src/catalog/model.ts'
import { CutoffSource, type SnapshotModel } from '../src/catalog/models.ts'
import { LEVELS, PROTOCOLS } from '../src/harnesses/model-access.ts'

/** Reasoning data of a catalog. `map` has the request value of each level, or null if it has none. */
type SourceReasoning = { reasoning: boolean; map: Record<string, string | null>; isAdaptive: boolean }

/** A model as one catalog describes it. */
export type SourceModel = {
  contextTokens?: number | undefined
  outputTokens?: number
  thinking?: SourceReasoning
  /** Undefined if our format cannot express them. */
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

/** Builds the row of a model, or returns why it has none: at least two catalogs must know it and all must agree. */
export function buildModel(
  group: ProviderGroup,
  pick: PickedModel,
  sources: readonly SourceModel[],
): SnapshotModel | string {
  const prices = findAgreedPrices(sources)
  if (typeof prices === 'string') return prices
  const contextTokens = pick.contextTokens ?? findAgreedContext(sources)
  if (contextTokens === undefined) return 'no two catalogs agree on its context'
  const detailed = sources.find(({ thinking }) => thinking)
  if (!detailed?.thinking || detailed.outputTokens === undefined) return 'no catalog knows its reasoning levels'
  const levels = toLevels(group, detailed.thinking)
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
  const known = sources.flatMap(({ prices }) => (prices ? [prices] : []))
  if (known.length < sources.length) return 'its price depends on the hour'
  const current = known.flatMap(([first]) => (first ? [first.prices] : []))
  if (new Set(current.map(formatRates)).size > 1)
    return `catalogs disagree on its price: ${current.map(formatRates).join(' / ')}`
  const tierLists = current.flatMap(({ tiers }) => (tiers ? [tiers] : []))
  if (new Set(tierLists.map((tiers) => tiers.map(formatRates).join())).size > 1)
    return 'catalogs disagree on its long-context price'
  const richest = known.toSorted((a, b) => countValues(b) - countValues(a))[0] ?? []
  const [tiers] = tierLists
  return richest.map((dated, index) =>
    tiers && index === 0 ? { ...dated, prices: { ...dated.prices, tiers: dated.prices.tiers ?? tiers } } : dated,
  )
}

const formatRates = ({ input, output, cacheRead }: Pick<Prices, 'input' | 'output' | 'cacheRead'>): string =>
  `${input} in, ${output} out, ${cacheRead ?? 'no'} cached`

/** Counts what a catalog says about prices. A further price in time weighs more than any number of rates. */
const countValues = (prices: DatedPrices[]): number =>
  prices.length * 100 + prices.reduce((sum, { prices: each }) => sum + countDefined(each), 0)

const countDefined = (prices: Prices): number => Object.values(prices).filter((price) => price !== undefined).length

/** Returns the context that two catalogs agree on. */
function findAgreedContext(sources: readonly SourceModel[]): number | undefined {
  const all = sources.flatMap(({ contextTokens }) => (contextTokens === undefined ? [] : [contextTokens]))
  return all.find((tokens, index) => all.indexOf(tokens) !== index)
}

/** Returns the catalogs' name of a level: `off` for our `none`. */
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
  { reasoning, map, isAdaptive }: SourceReasoning,
): SnapshotModel['levels'] {
  const isAnthropic = protocols.includes('anthropic-messages')
  if (!reasoning || (!isAnthropic && Object.keys(map).length === 0)) return [{ level: 'none', wire: { nothing: true } }]
  if (!isAnthropic) return toEffortLevels(map, protocols)
  const none: SnapshotModel['levels'] = map.off === null ? [] : [{ level: 'none', wire: { off: true } }]
  return [...none, ...(isAdaptive ? toAdaptiveLevels(map) : BUDGETS)]
}

/** Levels that every reasoning model supports; catalogs list only the others. */
const ALWAYS_ADAPTIVE: readonly string[] = ['low', 'medium', 'high']

const toAdaptiveLevels = (map: SourceReasoning['map']): SnapshotModel['levels'] =>
  LEVELS.flatMap((level) => {
    const effort = map[level] ?? (ALWAYS_ADAPTIVE.includes(level) ? level : undefined)
    return effort && level !== 'minimal' ? [{ level, wire: { effort } }] : []
  })

/** Returns the levels of models that take an effort. Only the Responses API takes one for `none`; others have a switch. */
const toEffortLevels = (map: SourceReasoning['map'], protocols: readonly string[]): SnapshotModel['levels'] =>
  LEVELS.flatMap((level) => {
    const effort = map[toSourceLevel(level)]
    if (!effort) return []
    const isSwitch = level === 'none' && !protocols.includes('openai-responses')
    return [{ level, wire: isSwitch ? { off: true as const } : { effort } }]
  })

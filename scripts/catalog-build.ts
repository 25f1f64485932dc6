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
export function modelOf(group: ProviderGroup, pick: PickedModel, said: readonly SourceModel[]): SnapshotModel | string {
  const prices = agreedPrices(said)
  if (typeof prices === 'string') return prices
  const contextTokens = pick.contextTokens ?? agreedContext(said)
  if (contextTokens === undefined) return 'no two catalogs agree on its context'
  const detail = said.find(({ thinking }) => thinking)
  if (!detail?.thinking || detail.outputTokens === undefined) return 'no catalog knows its reasoning levels'
  const levels = levelsOf(group, detail.thinking)
  if (!levels.some(({ level }) => level === pick.defaultLevel)) return `it has no level ${pick.defaultLevel}`
  return {
    catalogId: `${group.provider}/${pick.name}`,
    name: pick.name,
    label: pick.label,
    provider: group.provider,
    protocols: group.protocols,
    contextTokens,
    outputTokens: detail.outputTokens,
    knowledgeCutoff: pick.knowledgeCutoff,
    cutoffSource: pick.cutoffSource,
    levels,
    defaultLevel: pick.defaultLevel,
    prices,
  }
}

/** Selects the catalog with the most data. */
function agreedPrices(said: readonly SourceModel[]): DatedPrices[] | string {
  if (said.length < 2) return 'fewer than two catalogs know it'
  const known = said.flatMap(({ prices }) => (prices ? [prices] : []))
  if (known.length < said.length) return 'its price depends on the hour'
  const current = known.flatMap(([first]) => (first ? [first.prices] : []))
  if (new Set(current.map(base)).size > 1) return `catalogs disagree on its price: ${current.map(base).join(' / ')}`
  const stepped = current.flatMap(({ tiers }) => (tiers ? [tiers] : []))
  if (new Set(stepped.map((tiers) => tiers.map(base).join())).size > 1)
    return 'catalogs disagree on its long-context price'
  const richest = known.toSorted((a, b) => detailOf(b) - detailOf(a))[0] ?? []
  const [tiers] = stepped
  return richest.map((dated, place) =>
    tiers && place === 0 ? { ...dated, prices: { ...dated.prices, tiers: dated.prices.tiers ?? tiers } } : dated,
  )
}

const base = ({ input, output, cacheRead }: Pick<Prices, 'input' | 'output' | 'cacheRead'>): string =>
  `${input} in, ${output} out, ${cacheRead ?? 'no'} cached`

const detailOf = (prices: DatedPrices[]): number =>
  prices.length * 100 + prices.reduce((sum, { prices: each }) => sum + countDefined(each), 0)

const countDefined = (prices: Prices): number => Object.values(prices).filter((price) => price !== undefined).length

function agreedContext(said: readonly SourceModel[]): number | undefined {
  const all = said.flatMap(({ contextTokens }) => (contextTokens === undefined ? [] : [contextTokens]))
  return all.find((tokens, place) => all.indexOf(tokens) !== place)
}

/** Maps a catalog's `off` to our `none`. */
const wordFor = (level: string): string => (level === 'none' ? 'off' : level)

/** Token budgets of levels, for models that take a budget instead of an effort. */
const BUDGETS: SnapshotModel['levels'] = [
  { level: 'low', wire: { budgetTokens: 4000 } },
  { level: 'medium', wire: { budgetTokens: 8000 } },
  { level: 'high', wire: { budgetTokens: 16_000 } },
  { level: 'max', wire: { budgetTokens: 31_999 } },
]

function levelsOf(
  { protocols }: ProviderGroup,
  { reasoning, map, isAdaptive }: SourceReasoning,
): SnapshotModel['levels'] {
  const isOfAnthropic = protocols.includes('anthropic-messages')
  if (!reasoning || (!isOfAnthropic && Object.keys(map).length === 0))
    return [{ level: 'none', wire: { nothing: true } }]
  if (!isOfAnthropic) return namedLevels(map, protocols)
  const none: SnapshotModel['levels'] = map.off === null ? [] : [{ level: 'none', wire: { off: true } }]
  return [...none, ...(isAdaptive ? adaptiveLevels(map) : BUDGETS)]
}

/** Levels that every reasoning model supports; catalogs list only the others. */
const ALWAYS_ADAPTIVE: readonly string[] = ['low', 'medium', 'high']

const adaptiveLevels = (map: SourceReasoning['map']): SnapshotModel['levels'] =>
  LEVELS.flatMap((level) => {
    const word = map[level] ?? (ALWAYS_ADAPTIVE.includes(level) ? level : undefined)
    return word && level !== 'minimal' ? [{ level, wire: { effort: word } }] : []
  })

/** If a model has an effort value for `off`, it is treated like the other efforts. */
const namedLevels = (map: SourceReasoning['map'], protocols: readonly string[]): SnapshotModel['levels'] =>
  LEVELS.flatMap((level) => {
    const word = map[wordFor(level)]
    if (!word) return []
    const isSwitch = level === 'none' && !protocols.includes('openai-responses')
    return [{ level, wire: isSwitch ? { off: true as const } : { effort: word } }]
  })

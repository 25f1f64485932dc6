import { z } from 'zod'
import type { DatedPrices, Prices } from '../src/catalog/prices.ts'
import { CutoffSource, type SnapshotModel } from '../src/catalog/snapshot.ts'
import { LEVELS, PROTOCOLS } from '../src/harnesses/model-access.ts'

/** What a catalog says of reasoning: `map` has the word on the wire for a level, or null where it has none. */
type Thinking = { reasoning: boolean; map: Record<string, string | null>; isAdaptive: boolean }

/** What one catalog says of a model. */
export type Said = {
  contextTokens?: number
  outputTokens?: number
  thinking?: Thinking
  /** Undefined: they cannot be said in our way. */
  prices: DatedPrices[] | undefined
}

const Choice = z.strictObject({
  name: z.string(),
  label: z.string(),
  knowledgeCutoff: z.string().nullable(),
  cutoffSource: CutoffSource,
  defaultLevel: z.enum(LEVELS),
  /** Where the catalogs disagree, and the provider's own pages have been read. */
  contextTokens: z.number().optional(),
})
type Choice = z.infer<typeof Choice>

/** The models that we offer, by provider, with what no catalog says. Kept by hand. */
export const Picks = z.record(
  z.string(),
  z.strictObject({
    providers: z.strictObject({ pi: z.string(), genai: z.string(), dev: z.string() }),
    protocols: z.array(z.enum(PROTOCOLS)).min(1),
    models: z.array(Choice),
  }),
)

type Group = Pick<z.infer<typeof Picks>[string], 'protocols'> & { provider: string }

/** The row of a model, or why it has none: two catalogs must know it, and all that know it must agree. */
export function modelOf(group: Group, pick: Choice, said: readonly Said[]): SnapshotModel | string {
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

/** The one that knows most is taken. */
function agreedPrices(said: readonly Said[]): DatedPrices[] | string {
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
  prices.length * 100 + prices.reduce((sum, { prices: each }) => sum + Object.keys(each).length, 0)

function agreedContext(said: readonly Said[]): number | undefined {
  const all = said.flatMap(({ contextTokens }) => (contextTokens === undefined ? [] : [contextTokens]))
  return all.find((tokens, place) => all.indexOf(tokens) !== place)
}

/** What a catalog calls `off` is our `none`. */
const wordFor = (level: string): string => (level === 'none' ? 'off' : level)

/** In tokens, for models that take a budget and no word. Programs that know no budgets of their own are told these. */
const BUDGETS: SnapshotModel['levels'] = [
  { level: 'low', wire: { budgetTokens: 4000 } },
  { level: 'medium', wire: { budgetTokens: 8000 } },
  { level: 'high', wire: { budgetTokens: 16_000 } },
  { level: 'max', wire: { budgetTokens: 31_999 } },
]

function levelsOf({ protocols }: Group, { reasoning, map, isAdaptive }: Thinking): SnapshotModel['levels'] {
  const isOfAnthropic = protocols.includes('anthropic-messages')
  if (!reasoning || (!isOfAnthropic && Object.keys(map).length === 0))
    return [{ level: 'none', wire: { nothing: true } }]
  if (!isOfAnthropic) return namedLevels(map, protocols)
  const none: SnapshotModel['levels'] = map.off === null ? [] : [{ level: 'none', wire: { off: true } }]
  return [...none, ...(isAdaptive ? adaptiveLevels(map) : BUDGETS)]
}

/** These three go without saying; the catalog names only what not all of them have. */
const ALWAYS_ADAPTIVE: readonly string[] = ['low', 'medium', 'high']

const adaptiveLevels = (map: Thinking['map']): SnapshotModel['levels'] =>
  LEVELS.flatMap((level) => {
    const word = map[level] ?? (ALWAYS_ADAPTIVE.includes(level) ? level : undefined)
    return word && level !== 'minimal' ? [{ level, wire: { effort: word } }] : []
  })

/** Where off has a word of its own, that word is an effort like the others. */
const namedLevels = (map: Thinking['map'], protocols: readonly string[]): SnapshotModel['levels'] =>
  LEVELS.flatMap((level) => {
    const word = map[wordFor(level)]
    if (!word) return []
    const isSwitch = level === 'none' && !protocols.includes('openai-responses')
    return [{ level, wire: isSwitch ? { off: true as const } : { effort: word } }]
  })
